package op

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
)

// scanGrad builds the scan that computes a scan's gradient.
type scanGrad struct {
	o scan
	f *ir.Func
	// in holds the operands, dout the gradients of results, and saved the values carried into each trip.
	in, dout, saved []*Tensor

	b *ir.Builder
	// carry, rows and seen are the operands of the gradient's scan: carried values, those with rows, and those
	// that every trip reads.
	carry, rows, seen []*Tensor
}

// build applies the scan and returns the gradient of each float operand.
func (g *scanGrad) build() []*Tensor {
	for _, s := range g.saved {
		if s.Err() != nil {
			return invalidated(g.in, len(g.in), s.Err())
		}
	}
	program, err := pruned(g.program())
	if err != nil {
		return invalidated(g.in, len(g.in), err)
	}
	o := scan{
		Body:    program.String(),
		Carry:   len(g.carry),
		Xs:      len(g.rows),
		Length:  g.o.Trips(typesOfValues(g.in)),
		Reverse: !g.o.Reverse,
	}
	all := slices.Concat(g.carry, g.rows, g.seen)
	o.Save = o.Carry > 0 && anyTracked(all)
	if len(program.Results()) == 0 {
		return make([]*Tensor, len(g.in))
	}
	return g.toOperands(ir.Apply(o, all...))
}

// toOperands assigns the gradients to their operands: carried values, those with rows, and those that every
// trip reads.
func (g *scanGrad) toOperands(out []*Tensor) []*Tensor {
	carries, xs := g.o.Carry, g.o.Carry+g.o.Xs
	grads := make([]*Tensor, len(g.in))
	at := 0
	take := func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if g.in[i].DType().IsFloat() {
				grads[i] = out[at]
				at++
			}
		}
	}
	take(0, carries)
	take(xs, len(g.in))
	take(carries, xs)
	return grads
}

// program returns one trip of the gradient. Its parameters are in the order of the operands that it collects:
// gradients of carried values, sums of the gradients of what every trip reads; carried values, rows of xs,
// gradients of rows; what every trip reads.
func (g *scanGrad) program() (*ir.Func, error) {
	g.b = ir.NewBuilder("body_grad")
	c, x := g.o.Carry, g.o.Carry+g.o.Xs
	params := g.f.Params()
	var dcarry, sums []*Tensor
	for i := range c {
		dcarry = append(dcarry, g.carries(params[i].Type(), g.dout[i], params[i].DType().IsFloat()))
	}
	for i := x; i < len(params); i++ {
		sums = append(sums, g.carries(params[i].Type(), nil, params[i].DType().IsFloat()))
	}
	args := make([]*Tensor, len(params))
	for i := range c {
		args[i] = g.row(g.saved[i])
	}
	for i := c; i < x; i++ {
		args[i] = g.row(g.in[i])
	}
	results := g.f.Results()
	douts := make([]*Tensor, len(g.dout))
	for i := c; i < len(g.dout); i++ {
		if g.dout[i] != nil {
			douts[i] = g.row(g.dout[i])
		}
	}
	for i := x; i < len(params); i++ {
		args[i] = g.b.Param("", params[i].Type())
		g.seen = append(g.seen, g.in[i])
	}
	ys := g.f.Replay(g.b, args, nil)
	var from, cotangents []*Tensor
	for i := range results {
		d := douts[i]
		if i < c {
			d = dcarry[i]
		}
		if d != nil {
			from, cotangents = append(from, ys[i]), append(cotangents, d)
		}
	}
	return g.b.Build(g.give(args, from, cotangents, sums, douts[len(results):])...)
}

// give returns the results of one trip of the gradient.
func (g *scanGrad) give(args, from, cotangents, sums, dsaved []*Tensor) []*Tensor {
	c, x := g.o.Carry, g.o.Carry+g.o.Xs
	var at []*Tensor
	for _, a := range args {
		if a.DType().IsFloat() {
			at = append(at, a)
		}
	}
	grads := toFloats(args, Grad(from, cotangents, at))
	var out []*Tensor
	add := func(d, more *Tensor) {
		switch {
		case d == nil:
			return
		case more != nil:
			d = Add(more, d)
		}
		out = append(out, d)
	}
	for i := range c {
		var more *Tensor
		if len(dsaved) > 0 {
			more = dsaved[i]
		}
		add(grads[i], more)
	}
	for i := x; i < len(args); i++ {
		add(grads[i], sums[i-x])
	}
	for i := c; i < x; i++ {
		add(grads[i], nil)
	}
	return out
}

// carries adds a carried value that begins with d, or with zeros; it returns nil for a non-float.
func (g *scanGrad) carries(t Type, d *Tensor, float bool) *Tensor {
	if !float {
		return nil
	}
	if d == nil {
		d = Full(g.in[0].Scope(), t.DType, t.Shape, 0)
	}
	g.carry = append(g.carry, d)
	return g.b.Param("", t)
}

// row adds an operand of which a trip reads a row.
func (g *scanGrad) row(x *Tensor) *Tensor {
	g.rows = append(g.rows, x)
	return g.b.Param("", Type{DType: x.DType(), Shape: x.Shape()[1:]})
}
