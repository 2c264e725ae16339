package galley

import (
	"context"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Forward is a function of a trainer's parameters that is run without gradients, on the devices where training keeps them.
type Forward struct {
	t *Trainer
	f func(batch []*Tensor) []*Tensor
	// one and many are the compiled programs by the types of their batches, without and with a strategy.
	one  map[string]*Executable
	many map[string]*manyForward
}

// NewForward makes a forward pass of f, which computes with the trainer's parameters. It is compiled when the first batch of
// each size is run.
func (t *Trainer) NewForward(f func(batch []*Tensor) []*Tensor) *Forward {
	return &Forward{t: t, f: f, one: map[string]*Executable{}, many: map[string]*manyForward{}}
}

// Run is f of a batch. Under a strategy the batch is cut into micro-batches, so results must have a row for each of the batch's.
func (f *Forward) Run(ctx context.Context, batch ...array.Array) (out []array.Array, err error) {
	defer recoverBug("forward pass", &err)
	parts, rows, err := f.parts(ctx, batch)
	if err != nil || len(parts) == 1 {
		return first(parts), err
	}
	for i := range parts[0] {
		for m, p := range parts {
			if s := p[i].Shape(); len(s) == 0 || s[0] != rows[m] {
				return nil, fmt.Errorf("forward: result %d of a micro-batch of %d rows has shape %v: want a row for each: reduce it after Run, or set Micro to 1", i, rows[m], s)
			}
		}
		out = append(out, stack(parts, i))
	}
	return out, nil
}

func first(parts [][]array.Array) []array.Array {
	if len(parts) == 0 {
		return nil
	}
	return parts[0]
}

// stack puts the rows of result i of all parts together.
func stack(parts [][]array.Array, i int) array.Array {
	n := 0
	for _, p := range parts {
		n += p[i].Shape()[0]
	}
	shape := append(array.Shape{n}, parts[0][i].Shape()[1:]...)
	all := array.New(parts[0][i].DType(), shape...)
	at := 0
	for _, p := range parts {
		at += copy(all.Bytes()[at:], p[i].Bytes())
	}
	return all
}

// sums is f of a batch where its results are numbers: their sums over micro-batches.
func (f *Forward) sums(ctx context.Context, batch []array.Array) ([]float64, error) {
	parts, _, err := f.parts(ctx, batch)
	if err != nil {
		return nil, err
	}
	sums := make([]float64, len(parts[0]))
	for _, p := range parts {
		for i, a := range p {
			sums[i] += a.At(0)
		}
	}
	return sums, nil
}

// parts is f of every micro-batch, and how many rows each has.
func (f *Forward) parts(ctx context.Context, batch []array.Array) ([][]array.Array, []int, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if len(batch) == 0 {
		return nil, nil, fmt.Errorf("forward: want a batch")
	}
	if f.t.many != nil {
		return f.runMany(ctx, batch)
	}
	run := f.runStatic
	if f.t.c.Mode == Eager {
		run = f.runEager
	}
	out, err := run(batch)
	return [][]array.Array{out}, []int{0}, err
}

func (f *Forward) runStatic(batch []array.Array) ([]array.Array, error) {
	key, types := typesKey(batch)
	e := f.one[key]
	if e == nil {
		p, err := f.t.c.traceForward("forward", types, f.f)
		if err != nil {
			return nil, err
		}
		if e, err = Compile(f.t.c.Device, p, Options{}); err != nil {
			return nil, err
		}
		f.one[key] = e
	}
	params, err := f.t.params()
	if err != nil {
		return nil, err
	}
	return e.Run(slices.Concat(params, batch))
}

func (f *Forward) runEager(batch []array.Array) ([]array.Array, error) {
	var in, values []*Tensor
	for _, a := range batch {
		in = append(in, f.t.session.Tensor(a))
	}
	for _, p := range f.t.c.Params {
		values = append(values, p.Value.Detach()) // nothing remembers how it was made
	}
	defer nn.Bind(f.t.c.Params, values)()
	var out []array.Array
	for _, x := range f.f(in) {
		a, err := cpu.Read(x)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// traceForward is the program of a function of the parameters and a batch.
func (c TrainerConfig) traceForward(name string, batch []Type, f func([]*Tensor) []*Tensor) (*Program, error) {
	var params []Type
	for _, p := range c.Params {
		params = append(params, p.Type)
	}
	return c.traceWith(name, params, batch, f)
}

// traceWith is traceForward with parameters of other types.
func (c TrainerConfig) traceWith(name string, types, batch []Type, f func([]*Tensor) []*Tensor) (*Program, error) {
	b := ir.NewBuilder(name)
	var params, in []*Tensor
	for i, p := range c.Params {
		params = append(params, b.Param(p.Name, types[i]))
	}
	for i, t := range batch {
		in = append(in, b.Param(fmt.Sprintf("batch%d", i), t))
	}
	defer nn.Bind(c.Params, params)()
	return b.Build(f(in)...)
}

// meanParts is a loss as a sum and what it is divided by, so that the mean over a batch does not depend on how it is cut.
func meanParts(loss *Tensor, params []*Tensor, rows int) (sum, count *Tensor) {
	sum, count, ok := op.Quotient(loss)
	if !ok || len(sum.Shape())+len(count.Shape()) > 0 || dependsOn(count, params) {
		count = op.Const(loss, float64(rows))
		sum = op.Mul(loss, count)
	}
	return sum, count
}

// typesKey is a batch's types, and a text that tells them from others.
func typesKey(batch []array.Array) (string, []Type) {
	var types []Type
	for _, a := range batch {
		types = append(types, ir.TypeOf(a))
	}
	return fmt.Sprint(types), types
}
