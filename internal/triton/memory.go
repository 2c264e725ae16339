package triton

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/galley-ml/galley/array"
)

// readProgramID parses x : i32.
func readProgramID(p *parser, o *operation) []typ {
	axis := slices.Index([]string{"x", "y", "z"}, p.name())
	p.want(":")
	if t := p.typ(); axis < 0 || t != (typ{elem: "i32"}) {
		p.failAt(o.at, "%s: want x, y or z as i32", o.name)
	}
	o.eval = func(m *machine, o *operation) error {
		o.out[0].i[0] = int64(m.program[axis])
		return nil
	}
	return []typ{{elem: "i32"}}
}

// readRange parses {end = 64 : i32, start = 0 : i32} : tensor<64xi32>.
func readRange(p *parser, o *operation) []typ {
	attrs := p.attrs()
	p.want(":")
	t := p.typ()
	start, err1 := strconv.ParseInt(attrs["start"], 10, 32)
	end, err2 := strconv.ParseInt(attrs["end"], 10, 32)
	if err1 != nil || err2 != nil || t != (typ{elem: "i32", lanes: int(end - start)}) || t.lanes == 0 {
		p.failAt(o.at, "%s: got %s to %s as %v: want a tensor of that many i32", o.name, attrs["start"],
			attrs["end"], t)
	}
	o.eval = func(_ *machine, o *operation) error {
		for l := range o.out[0].i {
			o.out[0].i[l] = start + int64(l)
		}
		return nil
	}
	return []typ{t}
}

// readSplat parses %x : T -> tensor<64xT>.
func readSplat(p *parser, o *operation) []typ {
	uses := p.uses(1, 1)
	p.want(":")
	t := p.typ()
	p.take(o, t, uses...)
	p.want("->")
	u := p.typ()
	if want := (typ{elem: t.elem, pointer: t.pointer, lanes: u.lanes}); u != want || t.lanes > 0 ||
		u.lanes == 0 {
		p.failAt(o.at, "%s: got %v to %v: want a scalar to a tensor of it", o.name, t, u)
	}
	o.eval = func(_ *machine, o *operation) error {
		o.out[0].fill(o.in[0])
		return nil
	}
	return []typ{u}
}

// readAddPtr parses %p, %n : P, T.
func readAddPtr(p *parser, o *operation) []typ {
	uses := p.uses(2, 2)
	p.want(":")
	t := p.typ()
	p.want(",")
	n := p.kind(o, typ.isInt)
	if !t.pointer || n.elem == "i1" || t.lanes != n.lanes {
		p.failAt(o.at, "%s: got %v and %v: want pointers and as many numbers", o.name, t, n)
	}
	p.take(o, t, uses[0])
	p.take(o, n, uses[1])
	o.eval = func(_ *machine, o *operation) error {
		out, n := o.out[0], o.in[1].i
		out.param = o.in[0].param
		for l, x := range o.in[0].i {
			out.i[l] = x + n[l]
		}
		return nil
	}
	return []typ{t}
}

// access parses the end of a load or a store, the cache policy and the type of its pointers, and checks
// them.
func (p *parser) access(o *operation, pointers use) typ {
	if p.keyword("evictionPolicy") {
		p.want("=")
		if word := p.name(); !slices.Contains([]string{"evict_normal", "evict_first", "evict_last"}, word) {
			p.failAt(o.at, "%s: %s: unknown policy of the cache", o.name, word)
		}
	}
	if p.peek("{") {
		p.attrs()
	}
	p.want(":")
	t := p.typ()
	if !t.pointer {
		p.failAt(o.at, "%s: got %v: want pointers", o.name, t)
	}
	p.take(o, t, pointers)
	return t
}

// readLoad parses %p, %mask, %other : P; the mask and the value of masked lanes are optional.
func readLoad(p *parser, o *operation) []typ {
	uses := p.uses(1, 3)
	t := p.access(o, uses[0])
	if len(uses) > 1 {
		p.take(o, t.of("i1"), uses[1])
	}
	if len(uses) > 2 {
		p.take(o, t.of(t.elem), uses[2])
	}
	o.eval = load
	return []typ{t.of(t.elem)}
}

func load(m *machine, o *operation) error {
	buffer := m.args[o.in[0].param]
	for l, at := range o.in[0].i {
		switch {
		case len(o.in) == 1 || o.in[1].i[l] != 0:
			if err := buffer.check(l, at); err != nil {
				return err
			}
			buffer.load(o.out[0], l, int(at))
		case len(o.in) == 3:
			o.out[0].copyLane(l, o.in[2], l)
		default:
			o.out[0].spoil(l)
		}
	}
	return nil
}

// readStore parses %p, %x, %mask : P; the mask is optional.
func readStore(p *parser, o *operation) []typ {
	uses := p.uses(2, 3)
	t := p.access(o, uses[0])
	p.take(o, t.of(t.elem), uses[1])
	if len(uses) > 2 {
		p.take(o, t.of("i1"), uses[2])
	}
	o.eval = store
	return nil
}

func store(m *machine, o *operation) error {
	buffer := m.args[o.in[0].param]
	for l, at := range o.in[0].i {
		if len(o.in) == 3 && o.in[2].i[l] == 0 {
			continue
		}
		if err := buffer.check(l, at); err != nil {
			return err
		}
		buffer.store(o.in[1], l, int(at))
	}
	return nil
}

// buffer is an array that a parameter points to.
type buffer struct {
	array.Array
	param int
	// wide holds the elements if they are i64, which a float64 cannot represent.
	wide []int64
}

func newBuffer(param int, a array.Array) buffer {
	b := buffer{Array: a, param: param}
	if a.DType() == array.I64 {
		b.wide = array.Data[int64](a)
	}
	return b
}

func (b buffer) check(lane int, at int64) error {
	if at < 0 || at >= int64(b.Len()) {
		return fmt.Errorf("lane %d: index %d of argument %d: want 0 to %d", lane, at, b.param, b.Len()-1)
	}
	return nil
}

func (b buffer) load(v *value, lane, at int) {
	switch {
	case b.wide != nil:
		v.i[lane] = b.wide[at]
	case v.f != nil:
		v.f[lane] = b.At(at)
	default:
		v.i[lane] = int64(b.At(at))
	}
}

func (b buffer) store(v *value, lane, at int) {
	switch {
	case b.wide != nil:
		b.wide[at] = v.i[lane]
	case v.f != nil:
		b.Set(at, v.f[lane])
	default:
		b.Set(at, float64(v.i[lane]))
	}
}
