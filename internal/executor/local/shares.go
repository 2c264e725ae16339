package local

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/op"
)

// Shares is an executor that holds the state on the host while several backends compute gradients, each of a
// part of the batch. Each returns the sum of its losses and the divisor, so that the step equals that of the
// whole batch, however it is split.
type Shares struct {
	*Executor
	members []backend.Backend
	steps   map[string]*sharedStep
}

// sharedStep holds the programs for batches of one type.
type sharedStep struct {
	cut    *executor.Cutting
	parts  []backend.Executable
	update *cpu.Executable
}

// NewShares returns an executor with the optimizer's slots at zero.
func NewShares(c executor.Config) (*Shares, error) {
	e, err := New(c)
	if err != nil {
		return nil, err
	}
	s := &Shares{Executor: e, steps: map[string]*sharedStep{}}
	for _, m := range c.Shares {
		if m.Backend == nil {
			m.Backend = e.c.Device.Backend()
		}
		s.members = append(s.members, m.Backend)
	}
	return s, nil
}

// Start compiles the programs.
func (s *Shares) Start(batch ...ir.Type) error {
	_, err := s.shared(batch)
	return err
}

// Step runs one step.
func (s *Shares) Step(in executor.Input) (executor.Running, error) {
	st, err := s.shared(executor.TypesOf(in.Batch))
	if err != nil {
		return nil, err
	}
	parts, err := st.cut.Micros(in.Batch, int(in.Count))
	if err != nil {
		return nil, err
	}
	params, err := s.params()
	if err != nil {
		return nil, err
	}
	sums, err := s.gradients(st, params, parts)
	if err != nil {
		return nil, err
	}
	args := slices.Concat(params, s.slots, sums, []array.Array{s.c.Scalar(in.LR), s.c.Scalar(in.Count)})
	results, err := st.update.Run(args)
	if err != nil {
		return nil, err
	}
	for i, p := range s.c.Params {
		p.Value = s.session.Tensor(results[executor.Metrics+i]).Track()
	}
	s.last, s.slots = st.update, results[executor.Metrics+len(params):]
	return executor.Result{Loss: results[0].At(0), Norm: results[1].At(0)}, nil
}

// gradients runs all members at once and returns their sums, one member's after the other's.
func (s *Shares) gradients(
	st *sharedStep,
	params []array.Array,
	parts [][]array.Array,
) ([]array.Array, error) {
	results, errs := make([][]array.Array, len(s.members)), make([]error, len(s.members))
	var all sync.WaitGroup
	for i, b := range s.members {
		all.Go(func() {
			if results[i], errs[i] = runOn(b, st.parts[i], slices.Concat(params, parts[i])); errs[i] != nil {
				errs[i] = fmt.Errorf("share %d, %s: %w", i, b.Name(), errs[i])
			}
		})
	}
	all.Wait()
	return slices.Concat(results...), errors.Join(errs...)
}

// runOn runs a program on arrays of the host.
func runOn(b backend.Backend, exe backend.Executable, args []array.Array) ([]array.Array, error) {
	in := make([]backend.Buffer, len(args))
	for i, a := range args {
		x, err := b.Put(a)
		if err != nil {
			return nil, err
		}
		defer x.Free()
		in[i] = x
	}
	out, err := exe.Run(in)
	if err != nil {
		return nil, err
	}
	list := make([]array.Array, len(out))
	for i, x := range out {
		if list[i], err = x.Read(); err != nil {
			return nil, err
		}
		x.Free()
	}
	return list, nil
}

// shared returns the programs for batches of these types.
func (s *Shares) shared(batch []ir.Type) (*sharedStep, error) {
	key := fmt.Sprint(batch)
	if st := s.steps[key]; st != nil {
		return st, nil
	}
	st, programs, variant, err := s.cutLoss(batch)
	if err != nil {
		return nil, err
	}
	var types []ir.Type
	for i, b := range s.members {
		p, err := s.partProgram(programs[variant[i]])
		if err != nil {
			return nil, err
		}
		exe, err := b.Compile(p, backend.Options{})
		if err != nil {
			return nil, fmt.Errorf("share %d, %s: %w", i, b.Name(), err)
		}
		st.parts = append(st.parts, exe)
		for _, v := range p.Results() {
			types = append(types, v.Type())
		}
	}
	p, err := s.updateProgram(types)
	if err != nil {
		return nil, err
	}
	if st.update, err = executor.Compile(s.c.Device, p, s.options()); err != nil {
		return nil, err
	}
	s.steps[key] = st
	return st, nil
}

// cutLoss returns the programs of the loss of each member's rows.
func (s *Shares) cutLoss(batch []ir.Type) (st *sharedStep, programs []*ir.Func, variant []int, err error) {
	rows, err := executor.RowsIn(batch)
	if err != nil {
		return nil, nil, nil, err
	}
	parts, err := executor.ShareRows(rows, s.c.Shares)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("trainer: %w", err)
	}
	b := ir.NewBuilder("loss")
	number, params := executor.NewStepNumber(b), s.c.WeightParams(b)
	loss := executor.CheckedLoss(s.c.LossOf(params, executor.BatchParams(b, batch), number.Tensor), params)
	if loss.Err() != nil {
		return nil, nil, nil, loss.Err()
	}
	forms := executor.LossForms(loss, params, rows)
	f, err := b.Build(forms...)
	if err == nil {
		err = layout.CheckConstraints(f)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	st = &sharedStep{}
	programs, variant, st.cut, err = executor.CutProgram(f, len(params), batch, parts, number,
		executor.FormIndex(forms)...)
	return st, programs, variant, err
}

// partProgram returns the sum of a part's losses, what it is divided by, and the sum's gradients.
func (s *Shares) partProgram(loss *ir.Func) (*ir.Func, error) {
	b := ir.NewBuilder("train_part")
	params := s.c.WeightParams(b)
	var in []*op.Tensor
	for _, v := range loss.Params()[len(params):] {
		in = append(in, b.Param(v.Name(), v.Type()))
	}
	out := loss.Replay(b, slices.Concat(params, in), nil)
	p, err := b.Build(append(out, op.GradOnce(out[:1], nil, params)...)...)
	if err != nil {
		return nil, err
	}
	return s.c.OptimizeProgram(p)
}

// updateProgram returns the program that adds the sums of all members, in their order, and ends the step.
func (s *Shares) updateProgram(types []ir.Type) (*ir.Func, error) {
	c, b := s.c, ir.NewBuilder("train_update")
	params, slots := c.WeightParams(b), c.SlotParams(b)
	n := len(types) / len(s.members)
	sums := make([]*op.Tensor, n)
	for i, t := range types {
		x := op.Cast(b.Param("", t), t.DType.Compute())
		if i < n {
			sums[i] = x
		} else {
			sums[i%n] = op.Add(sums[i%n], x)
		}
	}
	rest := append(slots, b.Param("lr", c.ScalarType()), b.Param("count", c.ScalarType()))
	loss, scale := op.Div(sums[0], sums[1]), op.Reciprocal(sums[1])
	return b.Build(c.Update(loss, params, sums[2:], rest, scale)...)
}

// Close releases the programs; the backends belong to the caller.
func (s *Shares) Close() error {
	for _, st := range s.steps {
		for _, e := range st.parts {
			e.Close()
		}
	}
	return s.Executor.Close()
}
