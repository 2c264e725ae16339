package ptx

import (
	"fmt"
	"strings"
)

// reg is a register's name.
type reg string

// code is instructions as they are written. Registers are never written twice but where the text says so.
type code struct {
	text   strings.Builder
	counts map[string]int
	labels int
}

// classes is the kinds of registers: the first letters of their names, and what they hold.
var classes = [][2]string{{"r", ".b32"}, {"h", ".b16"}, {"d", ".b64"}, {"f", ".f32"}, {"p", ".pred"}}

func (c *code) reg(class string) reg {
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[class]++
	return reg(fmt.Sprintf("%%%s%d", class, c.counts[class]-1))
}

// do writes an instruction.
func (c *code) do(op string, args ...any) { c.line("", op, args) }

// when writes an instruction for the threads for which p holds.
func (c *code) when(p reg, op string, args ...any) { c.line("@"+string(p)+" ", op, args) }

func (c *code) line(guard, op string, args []any) {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = fmt.Sprint(a)
	}
	c.text.WriteString(guard + strings.TrimSpace(op+" "+strings.Join(list, ", ")) + ";\n")
}

// u32, u64, f32 and pred write an instruction whose result is a new register.
func (c *code) u32(op string, args ...any) reg  { return c.result("r", op, args) }
func (c *code) u64(op string, args ...any) reg  { return c.result("d", op, args) }
func (c *code) f32(op string, args ...any) reg  { return c.result("f", op, args) }
func (c *code) pred(op string, args ...any) reg { return c.result("p", op, args) }

func (c *code) result(class, op string, args []any) reg {
	r := c.reg(class)
	c.line("", op, append([]any{r}, args...))
	return r
}

// label returns a name for a place in the text, mark puts it there.
func (c *code) label() string {
	c.labels++
	return fmt.Sprintf("L%d", c.labels)
}

func (c *code) mark(label string) { c.text.WriteString(label + ":\n") }

// at returns the memory some bytes behind an address.
func at(r reg, bytes int) string { return fmt.Sprintf("[%s+%d]", r, bytes) }

// group is like registers that an instruction takes as one operand.
func group(rs ...reg) string {
	list := make([]string, len(rs))
	for i, r := range rs {
		list[i] = string(r)
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// entry returns the whole text: a kernel whose parameters are pointers, and the directives that say how it is
// launched.
func (c *code) entry(name string, params int, directives string) string {
	list := make([]string, params)
	for i := range list {
		list[i] = fmt.Sprintf(".param .u64 p%d", i)
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 memory[];\n.visible "+
			".entry %s(%s)\n%s\n{\n", name, strings.Join(list, ", "), directives)
	for _, k := range classes {
		if n := c.counts[k[0]]; n > 0 {
			fmt.Fprintf(&b, ".reg %s %%%s<%d>;\n", k[1], k[0], n)
		}
	}
	return b.String() + c.text.String() + "ret;\n}\n"
}
