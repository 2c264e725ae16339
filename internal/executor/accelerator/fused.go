package accelerator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// fused describes the fused parameters of a model and their slots on one device of a backend: parameters that
// one product reads are stored as one tensor, so that the step need not concatenate them, nor split their
// gradient.
type fused struct {
	// tensors are concatenations of parameters along a dim.
	tensors []pass.FusedParams
	// at holds by parameter its tensor, and its offset in it.
	at []partOf
}

type partOf struct{ tensor, start int }

// add adds a fused tensor. types are those of all parameters.
func (j *fused) add(t pass.FusedParams, types []ir.Type) {
	start := 0
	for _, i := range t.Params {
		for len(j.at) <= i {
			j.at = append(j.at, partOf{})
		}
		j.at[i] = partOf{len(j.tensors), start}
		if len(t.Params) > 1 {
			start += types[i].Shape[t.Dim]
		}
	}
	j.tensors = append(j.tensors, t)
}

// fusedBy returns the fused parameters that suit a program of the loss: every tensor takes the position of
// its first parameter.
func fusedBy(f *ir.Func, types []ir.Type, fixed func(param int) bool) *fused {
	groups, other := map[int]pass.FusedParams{}, map[int]bool{}
	for _, g := range pass.FusableParams(f, len(types)) {
		if slices.ContainsFunc(g.Params, fixed) {
			continue // a part of it is frozen
		}
		groups[g.Params[0]] = g
		for _, i := range g.Params[1:] {
			other[i] = true
		}
	}
	j := &fused{}
	for i := range types {
		if g, ok := groups[i]; ok {
			j.add(g, types)
		} else if !other[i] {
			j.add(pass.FusedParams{Params: []int{i}}, types)
		}
	}
	return j
}

// config returns c with fused tensors in place of the parameters. The loss still gets the parameters, sliced
// out of the tensors.
func (j *fused) config(c executor.Config) executor.Config {
	fused := c
	fused.Params = nil
	for _, t := range j.tensors {
		fused.Params = append(fused.Params, j.param(c.Params, t))
	}
	fused.Loss = func(batch []*op.Tensor) *op.Tensor {
		defer nn.Bind(c.Params, j.cut(c.Params, fused.Params))()
		return c.Loss(batch)
	}
	return fused
}

// param returns a fused tensor as a parameter without a value.
func (j *fused) param(params []*nn.Param, t pass.FusedParams) *nn.Param {
	first := params[t.Params[0]]
	if len(t.Params) == 1 {
		p := first.Like(first.Name, first.Type)
		p.Fixed, p.Buffer = first.Fixed, first.Buffer
		return p
	}
	var names []string
	shape := first.Type.Shape.Clone()
	shape[t.Dim] = 0
	for _, i := range t.Params {
		names = append(names, params[i].Name)
		shape[t.Dim] += params[i].Type.Shape[t.Dim]
	}
	return first.Like(strings.Join(names, "+"), ir.Type{DType: first.Type.DType, Shape: shape})
}

// cut slices the model's parameters out of the fused tensors.
func (j *fused) cut(params, tensors []*nn.Param) []*op.Tensor {
	values := make([]*op.Tensor, len(params))
	for k, t := range j.tensors {
		if len(t.Params) == 1 {
			values[t.Params[0]] = tensors[k].Value
			continue
		}
		var sizes []int
		for _, i := range t.Params {
			sizes = append(sizes, params[i].Type.Shape[t.Dim])
		}
		for n, piece := range op.Split(tensors[k].Value, t.Dim, sizes...) {
			values[t.Params[n]] = piece
		}
	}
	return values
}

// onFused wraps a function of the model's parameters as one of the fused tensors.
func (r *Executor) onFused(f executor.Func) executor.Func {
	if r.fused == nil {
		return f
	}
	return func(in []*op.Tensor) []*op.Tensor {
		defer nn.Bind(r.model.Params, r.fused.cut(r.model.Params, r.c.Params))()
		return f(in)
	}
}

// fuseState converts the state to fused tensors before the first step, as suits batches of these types.
func (r *Executor) fuseState(batch []ir.Type) error {
	if r.stateFused {
		return nil
	}
	j, err := r.fusing(batch)
	if err != nil {
		return err
	}
	if j != nil {
		if err := r.join(j, r.model); err != nil {
			return err
		}
		r.c, r.owned = j.config(r.c), len(r.state[0])
	}
	r.stateFused = true
	return nil
}

// fusing returns the fused parameters for the loss of batches of these types; nil if none are fused. An
// optimizer that is not elementwise needs the parameters unfused.
func (r *Executor) fusing(batch []ir.Type) (*fused, error) {
	if r.group != nil || r.micro > 1 || !optim.EachElement(r.model.Optimizer) {
		return nil, nil
	}
	plain := r.model
	plain.Backend, plain.Compute = nil, array.Invalid // nothing is fused yet
	p, err := plain.TraceForward("loss", batch, func(in []*op.Tensor) []*op.Tensor {
		var params []*op.Tensor
		for _, x := range r.model.Params {
			params = append(params, x.Value)
		}
		return []*op.Tensor{executor.CheckedLoss(r.model.Loss(in), params)}
	})
	if err != nil {
		return nil, err
	}
	var types []ir.Type
	for _, x := range r.model.Params {
		types = append(types, x.Type)
	}
	fixed := func(i int) bool { return r.model.Params[i].Fixed || r.model.Params[i].Buffer }
	if j := fusedBy(p, types, fixed); len(j.tensors) < len(types) {
		return j, nil
	}
	return nil, nil
}

// join fuses the state: the parameters, then the optimizer's slots, tensor by tensor. All programs are
// compiled before the first runs, so that a compile error leaves the state unchanged. Parts are freed as soon
// as they are concatenated, so that no second state is needed; therefore the state is lost if a run fails
// midway.
func (r *Executor) join(j *fused, c executor.Config) error {
	var runs []func() (backend.Buffer, error)
	all := j.parts(r.state[0], len(c.Params), c.Optimizer.Slots())
	for _, parts := range all {
		run, err := r.concat(parts)
		if err != nil {
			return fmt.Errorf("%s: %w", j.param(c.Params, parts.of).Name, err)
		}
		runs = append(runs, run)
	}
	next := make([]backend.Buffer, len(runs))
	for i, run := range runs {
		var err error
		if next[i], err = run(); err != nil {
			for _, parts := range all[i:] {
				free([][]backend.Buffer{parts.list})
			}
			free([][]backend.Buffer{next[:i]})
			r.state = nil
			return fmt.Errorf("%s: %w", j.param(c.Params, all[i].of).Name, err)
		}
	}
	r.fused, r.state[0] = j, next
	return nil
}

// tensorParts is the buffers that make up a fused tensor.
type tensorParts struct {
	of   pass.FusedParams
	list []backend.Buffer
}

// parts returns the buffers that make up each tensor of the new state: the parameters' tensors, then all
// slots of the first tensor, and so on.
func (j *fused) parts(state []backend.Buffer, params, slots int) []tensorParts {
	var all []tensorParts
	add := func(t pass.FusedParams, at func(param int) int) {
		p := tensorParts{of: t}
		for _, i := range t.Params {
			p.list = append(p.list, state[at(i)])
		}
		all = append(all, p)
	}
	for _, t := range j.tensors {
		add(t, func(i int) int { return i })
	}
	for _, t := range j.tensors {
		for s := range slots {
			add(t, func(i int) int { return params + i*slots + s })
		}
	}
	return all
}

// concat returns a function that concatenates buffers on the device and frees them.
func (r *Executor) concat(p tensorParts) (func() (backend.Buffer, error), error) {
	if len(p.list) == 1 {
		return func() (backend.Buffer, error) { return p.list[0], nil }, nil
	}
	run, err := r.once("concat", p.list, func(in []*op.Tensor) []*op.Tensor {
		return []*op.Tensor{op.Concat(in,
			p.of.Dim)}
	})
	if err != nil {
		return nil, err
	}
	return func() (backend.Buffer, error) {
		out, err := run()
		if err != nil {
			return nil, err
		}
		for _, x := range p.list {
			x.Free()
		}
		return out[0], nil
	}, nil
}

// once compiles a function of buffers and returns a function that runs it once.
func (r *Executor) once(name string, args []backend.Buffer,
	f func(in []*op.Tensor) []*op.Tensor) (func() ([]backend.Buffer, error), error) {
	b := ir.NewBuilder(name)
	var in []*op.Tensor
	for _, x := range args {
		in = append(in, b.Param("x", x.Type()))
	}
	p, err := b.Build(f(in)...)
	if err != nil {
		return nil, err
	}
	exe, err := r.compiled(p.String(), func() (backend.Executable, error) {
		return r.compile(p, layouts{},
			nil)
	})
	if err != nil {
		return nil, err
	}
	return func() ([]backend.Buffer, error) { return exe.Run(args) }, nil
}

// part returns the place of parameter or slot i of the model: the index of its tensor in the state, and its
// box in it.
func (r *Executor) part(i int) (tensor int, start, size []int) {
	c := r.model
	n, slots := len(c.Params), c.Optimizer.Slots()
	param, slot := i, -1
	if i >= n {
		param, slot = (i-n)/slots, (i-n)%slots
	}
	size = c.Params[param].Type.Shape
	start = make([]int, len(size))
	if r.fused == nil {
		return i, start, size
	}
	at := r.fused.at[param]
	if t := r.fused.tensors[at.tensor]; len(t.Params) > 1 {
		start[t.Dim] = at.start
	}
	tensor = at.tensor
	if slot >= 0 {
		tensor = len(r.fused.tensors) + at.tensor*slots + slot
	}
	return tensor, start, size
}

// cutOut returns a box of an array; the array itself if the box is all of it.
func cutOut(a array.Array, start, size []int) array.Array {
	if a.Shape().Equal(size) {
		return a
	}
	part := array.New(a.DType(), size...)
	array.CopyBox(part, make([]int, len(size)), a, start, size)
	return part
}
