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

// fused is how a model's parameters, and the optimizer's memory of them, are on one device of a backend:
// those that one product takes are fused into one tensor, which the step then need not put together, nor cut
// its gradient.
type fused struct {
	// tensors are made of parameters, one after the other along a dim.
	tensors []pass.FusedParams
	// at is by parameter: its tensor, and where it begins in it.
	at []partOf
}

type partOf struct{ tensor, start int }

// add adds a tensor. types are those of all parameters.
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

// fusedBy returns the layout that a program of the loss asks for: every tensor stands where its first
// parameter stood.
func fusedBy(f *ir.Func, types []ir.Type, fixed func(param int) bool) *fused {
	groups, other := map[int]pass.FusedParams{}, map[int]bool{}
	for _, g := range pass.FusableParams(f, len(types)) {
		if slices.ContainsFunc(g.Params, fixed) {
			continue // training leaves a part of it alone
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

// config returns c with the tensors in the place of the parameters. The loss sees the parameters, cut out of
// them.
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

// param returns the tensor as a parameter without a value.
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

// cut returns the values of the model's parameters by those of the tensors.
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

// sees returns a function of the model as one of the tensors.
func (r *Executor) sees(f executor.Func) executor.Func {
	if r.fused == nil {
		return f
	}
	return func(in []*op.Tensor) []*op.Tensor {
		defer nn.Bind(r.model.Params, r.fused.cut(r.model.Params, r.c.Params))()
		return f(in)
	}
}

// fuseState brings the state to the layout that batches of these types ask for, the first time.
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

// fusing returns the layout of the state by the loss of batches of these types; nil where all parameters stay
// as they are. An optimizer that looks at more than an element must see parameters as they are.
func (r *Executor) fusing(batch []ir.Type) (*fused, error) {
	if r.group != nil || r.micro > 1 || !optim.EachElement(r.model.Optimizer) {
		return nil, nil
	}
	plain := r.model
	plain.Backend, plain.Compute = nil, array.Invalid // nothing is joined yet
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

// join puts together what layouts together from now on: the parameters, then the optimizer's slots, tensor by
// tensor. All programs are there before the first runs, so that one that cannot be compiled leaves the state
// as it was; parts go as soon as they are put together, so that no second state is needed. A run that fails
// midway ends the trainer's state, therefore.
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

// tensorParts is the buffers of which a tensor is made.
type tensorParts struct {
	of   pass.FusedParams
	list []backend.Buffer
}

// parts returns what the state's tensors are made of: those of the parameters, then all slots of the first
// tensor, and so on.
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

// concat returns a run that puts buffers together on the device; then they are gone.
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

// once returns a run of a function of buffers on the device.
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

// part returns where parameter or slot i of the model layouts: the number of its tensor in the state, and its
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

// cutOut returns a box of an array, or the array where it is all of it.
func cutOut(a array.Array, start, size []int) array.Array {
	if a.Shape().Equal(size) {
		return a
	}
	part := array.New(a.DType(), size...)
	array.CopyBox(part, make([]int, len(size)), a, start, size)
	return part
}
