package ptx

import (
	"fmt"
	"strings"
)

// reg is a register's name.
type reg string

// code is the PTX text being written. Registers are written once, except where noted.
type code struct {
	text   strings.Builder
	counts map[string]int
	labels int
	// static is the bytes of shared memory that the text itself declares; 0 means that of the launch.
	static int
}

// classes are the register classes: the first letters of their names, and their types.
var classes = [][2]string{{"r", ".b32"}, {"h", ".b16"}, {"d", ".b64"}, {"f", ".f32"}, {"p", ".pred"}}

func (c *code) reg(class string) reg {
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[class]++
	return reg(fmt.Sprintf("%%%s%d", class, c.counts[class]-1))
}

// do emits an instruction.
func (c *code) do(op string, args ...any) { c.line("", op, args) }

// when emits an instruction predicated on p.
func (c *code) when(p reg, op string, args ...any) { c.line("@"+string(p)+" ", op, args) }

func (c *code) line(guard, op string, args []any) {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = fmt.Sprint(a)
	}
	c.text.WriteString(guard + strings.TrimSpace(op+" "+strings.Join(list, ", ")) + ";\n")
}

// u32, u64, f32 and pred emit an instruction whose result is a new register.
func (c *code) u32(op string, args ...any) reg  { return c.result("r", op, args) }
func (c *code) u64(op string, args ...any) reg  { return c.result("d", op, args) }
func (c *code) f32(op string, args ...any) reg  { return c.result("f", op, args) }
func (c *code) pred(op string, args ...any) reg { return c.result("p", op, args) }

func (c *code) result(class, op string, args []any) reg {
	r := c.reg(class)
	c.line("", op, append([]any{r}, args...))
	return r
}

// label returns a new label, mark puts it into the text.
func (c *code) label() string {
	c.labels++
	return fmt.Sprintf("L%d", c.labels)
}

func (c *code) mark(label string) { c.text.WriteString(label + ":\n") }

// at returns the memory operand at an offset in bytes from an address.
func at(r reg, bytes int) string { return fmt.Sprintf("[%s+%d]", r, bytes) }

// group returns registers as one vector operand.
func group(rs ...reg) string {
	list := make([]string, len(rs))
	for i, r := range rs {
		list[i] = string(r)
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// entry returns the whole text: a kernel whose parameters are pointers, with the given launch
// directives.
func (c *code) entry(name string, params int, directives string) string {
	list := make([]string, params)
	for i := range list {
		list[i] = fmt.Sprintf(".param .u64 p%d", i)
	}
	memory := ".extern .shared .align 1024 .b8 memory[];"
	if c.static > 0 {
		memory = fmt.Sprintf(".shared .align 1024 .b8 memory[%d];", c.static)
	}
	var b strings.Builder
	fmt.Fprintf(&b, ".version 8.6\n.target sm_90a\n.address_size 64\n%s\n.visible .entry %s(%s)\n%s\n{\n",
		memory, name, strings.Join(list, ", "), directives)
	for _, k := range classes {
		if n := c.counts[k[0]]; n > 0 {
			fmt.Fprintf(&b, ".reg %s %%%s<%d>;\n", k[1], k[0], n)
		}
	}
	return b.String() + c.text.String() + "ret;\n}\n"
}
