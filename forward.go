package galley

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Forward is a function of a trainer's parameters that is run without gradients, on the devices where training keeps them.
type Forward struct {
	t *Trainer
	f func(batch []*Tensor) []*Tensor
	// one, remote and many are the compiled programs by the types of their batches: without a strategy, on a backend, with one.
	one    map[string]*Executable
	remote map[string]backend.Executable
	many   map[string]*manyForward
}

// NewForward makes a forward pass of f, which computes with the trainer's parameters. It is compiled when the first batch of
// each size is run.
func (t *Trainer) NewForward(f func(batch []*Tensor) []*Tensor) *Forward {
	return &Forward{t: t, f: f, one: map[string]*Executable{}, remote: map[string]backend.Executable{}, many: map[string]*manyForward{}}
}

// Close gives back what the pass holds on a backend.
func (f *Forward) Close() (err error) {
	for _, e := range f.remote {
		err = errors.Join(err, e.Close())
	}
	clear(f.remote)
	return err
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
	if err := checkBatch(ctx, batch); err != nil {
		return nil, nil, err
	}
	if f.t.many != nil {
		return f.runMany(ctx, batch)
	}
	if f.t.remote != nil {
		return f.runRemotely(batch)
	}
	run := f.runStatic
	if f.t.c.Mode == Eager {
		run = f.runEager
	}
	out, err := run(batch)
	return [][]array.Array{out}, []int{0}, err
}

// compiled is the program for batches of these types, on one device.
func (f *Forward) compiled(types []Type) (*Executable, error) {
	key := fmt.Sprint(types)
	if e := f.one[key]; e != nil {
		return e, nil
	}
	p, err := f.t.c.traceForward("forward", types, f.f)
	if err == nil {
		err = checkConstraints(p)
	}
	if err != nil {
		return nil, err
	}
	e, err := Compile(f.t.c.Device, p, Options{})
	if err == nil {
		f.one[key] = e
	}
	return e, err
}

func (f *Forward) runStatic(batch []array.Array) ([]array.Array, error) {
	e, err := f.compiled(typesOf(batch))
	if err != nil {
		return nil, err
	}
	params, err := f.t.params()
	if err != nil {
		return nil, err
	}
	return e.Run(slices.Concat(params, batch))
}

// runRemotely runs on a backend, in as many micro-batches as training takes, or as there can be.
func (f *Forward) runRemotely(batch []array.Array) (parts [][]array.Array, rows []int, err error) {
	micros, err := f.t.remote.micros(batch)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range micros {
		out, err := f.runRemote(m)
		if err != nil {
			return nil, nil, err
		}
		parts, rows = append(parts, out), append(rows, m[0].Shape()[0])
	}
	return parts, rows, nil
}

// micros cuts a batch of any size into micro-batches, at most as many as a step has. Those that several devices share are equal, so that each device has
// as many rows.
func (r *remote) micros(batch []array.Array) ([][]array.Array, error) {
	if r.micro == 1 || len(batch[0].Shape()) == 0 {
		return [][]array.Array{batch}, nil
	}
	rows := batch[0].Shape()[0]
	n := max(1, min(rows, r.micro))
	if s := r.together; s != nil {
		each := s.mesh().Count(s.h.batchSharding(ir.TypeOf(batch[0])).Spec.Dims[0])
		for n > 1 && rows%(n*each) != 0 {
			n--
		}
	}
	if n == 1 {
		return [][]array.Array{batch}, nil
	}
	return cutRows(batch, spread(rows, n))
}

// runRemote runs on a backend, where the parameters are.
func (f *Forward) runRemote(batch []array.Array) ([]array.Array, error) {
	r := f.t.remote
	if err := r.open(); err != nil {
		return nil, err
	}
	e, err := f.compiledRemote(typesOf(batch))
	if err == nil {
		err = r.halve()
	}
	if err != nil {
		return nil, err
	}
	params := make([][]backend.Buffer, len(r.state))
	for i, list := range r.state {
		params[i] = slices.Concat(list[:len(r.c.Params)], list[r.owned:])
	}
	all, err := r.call(e, params, batch, 0)
	if err != nil {
		return nil, err
	}
	results := all[0] // they are whole on every device
	free(all[1:])
	out := make([]array.Array, len(results))
	for i, b := range results {
		defer b.Free()
		if out[i], err = b.Read(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (f *Forward) compiledRemote(types []Type) (backend.Executable, error) {
	r := f.t.remote
	key := fmt.Sprint(types, r.joined != nil, r.halved)
	if e := f.remote[key]; e != nil {
		return e, nil
	}
	p, err := r.c.traceForward("forward", types, r.sees(f.t.c, f.f))
	if err == nil {
		p, err = pass.Optimize(p)
	}
	if err == nil && len(r.halved) > 0 {
		p, err = onHalves(p, r.halved, len(r.c.Params), -1)
	}
	if err != nil {
		return nil, err
	}
	var at lies
	if s := r.together; s != nil {
		at = s.forwardLies(types, p)
	}
	e, err := r.compile(p, at, nil)
	if err == nil {
		f.remote[key] = e
	}
	return e, err
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
	var params []*Tensor
	for i, p := range c.Params {
		params = append(params, b.Param(p.Name, types[i]))
	}
	in := batchParams(b, batch)
	defer nn.Bind(c.Params, params)()
	p, err := b.Build(f(in)...)
	for _, rewrite := range c.forwardPasses() {
		if err == nil {
			p, err = rewrite(p)
		}
	}
	return p, err
}

// lossForms is a loss in two forms, each as a sum and what it is divided by: the quotient that it is, so that both can be summed over a
// batch before it is known what all of it comes to, or the loss and how many rows it is of. The last form is always right.
func lossForms(loss *Tensor, params []*Tensor, rows int) []*Tensor {
	count := op.Const(loss, float64(rows))
	forms := []*Tensor{op.Mul(loss, count), count}
	sum, count, ok := op.Quotient(loss)
	if !ok || len(sum.Shape())+len(count.Shape()) > 0 || dependsOn(count, params) {
		return forms
	}
	return append([]*Tensor{sum, count}, forms...)
}

// formIndex is the results of a program that are the forms of a loss.
func formIndex(forms []*Tensor) (list [][]int) {
	for i := 0; i < len(forms); i += 2 {
		list = append(list, []int{i, i + 1})
	}
	return list
}

// typesOf is a batch's types.
func typesOf(batch []array.Array) []Type {
	var types []Type
	for _, a := range batch {
		types = append(types, ir.TypeOf(a))
	}
	return types
}
