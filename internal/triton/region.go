package triton

import "fmt"

// loop is an scf.for: its operands are the bounds, the step and the initial carried values, its results the
// final ones.
type loop struct {
	index   *value
	carried []*value
	body    []*operation
	yields  []*value
}

// readFor parses %i = %lo to %hi step %s iter_args(%x = %x0) -> (T) : i32 { … }; carried values are
// optional.
func readFor(p *parser, o *operation) []typ {
	index, bounds := p.value(), p.bounds()
	names, starts, types := p.carried(o)
	p.want(":")
	t := p.typ()
	if t != (typ{elem: "i32"}) {
		p.failAt(o.at, "%s: got bounds of %v: want i32", o.name, t)
	}
	p.take(o, t, bounds...)
	l := &loop{index: p.newValue(o.at, t)}
	p.open()
	p.define(o.at, index, l.index)
	for i, u := range starts {
		p.take(o, types[i], u)
		l.carried = append(l.carried, p.newValue(u.at, types[i]))
		p.define(u.at, names[i], l.carried[i])
	}
	p.want("{")
	l.body, l.yields = p.block("scf.yield", types)
	p.want("}")
	p.close()
	if p.peek("{") {
		p.attrs()
	}
	o.eval = l.run
	return types
}

// bounds parses = %lo to %hi step %s.
func (p *parser) bounds() []use {
	p.want("=")
	bounds := []use{p.use()}
	for _, word := range []string{"to", "step"} {
		p.wantKeyword(word)
		bounds = append(bounds, p.use())
	}
	return bounds
}

// carried parses iter_args(%x = %x0, …) -> (T, …).
func (p *parser) carried(o *operation) (names []string, starts []use, types []typ) {
	if !p.keyword("iter_args") {
		return nil, nil, nil
	}
	p.list("(", ")", func() {
		names = append(names, p.value())
		p.want("=")
		starts = append(starts, p.use())
	})
	p.want("->")
	p.list("(", ")", func() { types = append(types, p.typ()) })
	if len(types) != len(starts) {
		p.failAt(o.at, "%s: got %d types: want %d, one for each carried value", o.name, len(types), len(starts))
	}
	return names, starts, types
}

func (l *loop) run(m *machine, o *operation) error {
	from, to, step := o.in[0].i[0], o.in[1].i[0], o.in[2].i[0]
	if step <= 0 {
		return fmt.Errorf("step is %d: want more than 0", step)
	}
	copyAll(o.out, o.in[3:])
	for i := from; i < to; i += step {
		l.index.i[0] = i
		copyAll(l.carried, o.out)
		if err := m.block(l.body); err != nil {
			return err
		}
		copyAll(o.out, l.yields)
	}
	return nil
}

func copyAll(to, from []*value) {
	for i, v := range from {
		to[i].copyFrom(v)
	}
}

// fold is a tt.reduce: it combines two scalars by a region.
type fold struct {
	a, b, result *value
	body         []*operation
	// left holds the elements that remain to be folded.
	left *value
}

// readReduce parses (%x) <{axis = 0 : i32}> ({ ^bb0(%a: T, %b: T): … tt.reduce.return %c : T }) :
// (tensor<64xT>) -> T.
func readReduce(p *parser, o *operation) []typ {
	p.want("(")
	uses := p.uses(1, 1)
	p.want(")")
	p.want("<")
	if axis := p.attrs()["axis"]; axis != "0" {
		p.failAt(o.at, "%s: axis is %q: want 0", o.name, axis)
	}
	p.want(">")
	x := uses[0].typ
	if x.lanes == 0 || x.pointer {
		p.failAt(uses[0].at, "value %s is %v: want a tensor of numbers", uses[0].name, x)
	}
	scalar := typ{elem: x.elem}
	f := &fold{left: p.newValue(o.at, x)}
	p.region(f, scalar)
	p.want(":")
	p.want("(")
	p.take(o, p.typ(), uses...)
	p.want(")")
	p.want("->")
	if t := p.typ(); t != scalar {
		p.failAt(o.at, "%s: got a result of %v: want %v", o.name, t, scalar)
	}
	o.eval = f.run
	return []typ{scalar}
}

// region parses the function that combines two elements.
func (p *parser) region(f *fold, scalar typ) {
	p.want("(")
	p.want("{")
	p.want("^bb0")
	p.open()
	var params []*value
	p.list("(", ")", func() {
		p.space()
		at := p.at
		name := p.value()
		p.want(":")
		if t := p.typ(); t != scalar || len(params) == 2 {
			p.failAt(at, "parameter %%%s of %v: want two of %v", name, t, scalar)
		}
		params = append(params, p.newValue(at, scalar))
		p.define(at, name, params[len(params)-1])
	})
	p.want(":")
	if len(params) != 2 {
		p.failAt(p.at, "got %d parameters: want two of %v", len(params), scalar)
	}
	var results []*value
	f.body, results = p.block("tt.reduce.return", []typ{scalar})
	f.a, f.b, f.result = params[0], params[1], results[0]
	p.want("}")
	p.want(")")
	p.close()
}

// run folds the halves onto each other, as the threads of a device do.
func (f *fold) run(m *machine, o *operation) error {
	f.left.copyFrom(o.in[0])
	for n := f.left.lanes / 2; n > 0; n /= 2 {
		for l := range n {
			f.a.copyLane(0, f.left, l)
			f.b.copyLane(0, f.left, l+n)
			if err := m.block(f.body); err != nil {
				return err
			}
			f.left.copyLane(l, f.result, 0)
		}
	}
	o.out[0].copyLane(0, f.left, 0)
	return nil
}
