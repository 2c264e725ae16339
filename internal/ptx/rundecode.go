package ptx

import (
	"strconv"
	"strings"
)

// decoder decodes the operands of one instruction.
type decoder struct {
	*reader
	op   string
	args []string
	in   *instruction
}

// decode turns a statement into an executable instruction.
func (r *reader) decode(s statement) instruction {
	r.at = s.line
	in := instruction{line: s.line, text: s.text, guard: -1}
	d := &decoder{reader: r, in: &in}
	text := s.text
	if guard, rest, ok := strings.Cut(text, " "); ok && strings.HasPrefix(text, "@") {
		text = rest
		guard, in.negated = strings.CutPrefix(guard[1:], "!")
		in.guard = d.register(guard, "pred")
	}
	op, rest, _ := strings.Cut(text, " ")
	d.op, d.args = op, d.split(rest)
	make := maker(op)
	if make == nil {
		d.fail("%s: unknown instruction", op)
	}
	make(d)
	if len(d.args) > 0 {
		d.fail("%s: got operand %q: want no more", op, d.args[0])
	}
	if len(in.text) > 100 { // an instruction such as wgmma has 128 registers
		in.text = in.text[:100] + "…"
	}
	return in
}

// split splits a list at its commas, except those within brackets.
func (d *decoder) split(list string) (parts []string) {
	if list == "" {
		return nil
	}
	depth, start := 0, 0
	for i, c := range list {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(list[start:i]))
				start = i + 1
			}
		}
	}
	if depth != 0 {
		d.fail("got %q: want as many closing brackets as open ones", list)
	}
	return append(parts, strings.TrimSpace(list[start:]))
}

// next returns the next operand.
func (d *decoder) next(want string) string {
	if len(d.args) == 0 {
		d.fail("%s: got no more operands: want %s", d.op, want)
	}
	s := d.args[0]
	d.args = d.args[1:]
	return s
}

// word consumes an operand that must be want.
func (d *decoder) word(want string) {
	if s := d.next(want); s != want {
		d.fail("%s: got operand %q: want %s", d.op, s, want)
	}
}

// held lists the register classes that may hold a type.
var held = map[string]string{"u32": "r", "b32": "rf", "f32": "fr", "u64": "d", "b64": "d", "b16": "h",
	"pred": "p"}

// register returns the index of a register among all.
func (d *decoder) register(name, typ string) int {
	if len(name) > 2 && name[0] == '%' && strings.IndexByte(held[typ], name[1]) >= 0 {
		n, err := strconv.ParseUint(name[2:], 10, 31)
		if count := d.program.count[name[1]]; err == nil && int(n) < count {
			reg := d.program.first[name[1]] + int(n)
			d.in.used = append(d.in.used, reg)
			return reg
		}
	}
	d.fail("%s: got operand %q: want a declared register of %s", d.op, name, typ)
	return 0
}

// out decodes a register that is written.
func (d *decoder) out(typ string) int { return d.register(d.next("a register"), typ) }

// source is a register, or an immediate if its index is negative.
type source struct {
	reg    int
	number uint64
}

// take decodes an operand that is read: a register or an immediate.
func (d *decoder) take(typ string) source {
	s := d.next("a register or a number")
	if strings.HasPrefix(s, "%") {
		return source{reg: d.register(s, typ)}
	}
	return source{-1, d.parse(s, typ)}
}

func (d *decoder) takes(typ string, n int) []source {
	list := make([]source, n)
	for i := range list {
		list[i] = d.take(typ)
	}
	return list
}

// number decodes an immediate.
func (d *decoder) number(typ string) uint64 { return d.parse(d.next("a number"), typ) }

func (d *decoder) parse(s, typ string) uint64 {
	bits := map[string]int{"u32": 32, "b32": 32, "u64": 64, "b64": 64, "b16": 16, "f32": 32}[typ]
	if typ == "f32" {
		if hex, ok := strings.CutPrefix(s, "0f"); ok && len(hex) == 8 {
			if n, err := strconv.ParseUint(hex, 16, 32); err == nil {
				return n
			}
		}
		d.fail("%s: got operand %q: want 0f and 8 digits", d.op, s)
	}
	if n, err := strconv.ParseUint(s, 0, bits); bits > 0 && err == nil {
		return n
	}
	n, err := strconv.ParseInt(s, 0, max(bits, 1))
	if err != nil || bits == 0 {
		d.fail("%s: got operand %q: want a number of %s", d.op, s, typ)
	}
	return uint64(n) & (1<<bits - 1)
}

// group decodes registers in braces.
func (d *decoder) group(typ string, n int) []int { return d.inBraces(d.next("registers"), typ, n) }

func (d *decoder) inBraces(s, typ string, n int) []int {
	rest, open := strings.CutPrefix(s, "{")
	rest, closed := strings.CutSuffix(rest, "}")
	parts := d.split(rest)
	if !open || !closed || len(parts) != n {
		d.fail("%s: got operand %q: want %d registers in braces", d.op, s, n)
	}
	regs := make([]int, n)
	for i, name := range parts {
		regs[i] = d.register(name, typ)
	}
	return regs
}

// place is a memory operand: an address register and an offset.
type place struct {
	address source
	bytes   uint64
}

// inBrackets returns an operand without its brackets.
func (d *decoder) inBrackets(s string) string {
	rest, open := strings.CutPrefix(s, "[")
	rest, closed := strings.CutSuffix(rest, "]")
	if !open || !closed {
		d.fail("%s: got operand %q: want a place in brackets", d.op, s)
	}
	return rest
}

// place decodes a memory operand: addresses of shared memory have 32 bits, of global memory 64.
func (d *decoder) place(typ string) place {
	name, bytes, more := strings.Cut(d.inBrackets(d.next("a place")), "+")
	p := place{address: source{reg: d.register(name, typ)}}
	if more {
		p.bytes = d.parse(bytes, "u32")
	}
	return p
}

// then sets the effect of an instruction after which its thread always continues.
func (d *decoder) then(f func(t *thread)) {
	d.in.run = func(t *thread) outcome {
		f(t)
		return goOn
	}
}

// together sets the effect of an instruction that all threads of a warp, or warpgroup, run together when the
// last one arrives.
func (d *decoder) together(size int, f func(c *crew)) {
	if d.in.guard >= 0 {
		d.fail("%s: got a guard: want all threads to run it", d.op)
	}
	d.in.run = func(t *thread) outcome {
		c := t.warp
		if size == groupThreads {
			c = t.group
		}
		return c.arrive(t, f)
	}
}
