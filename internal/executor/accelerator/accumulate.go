package accelerator

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// On a backend a step with gradient accumulation runs three programs: train_sums makes zeros, train_part adds
// the loss and gradients of a micro-batch to them, and train_update applies the update. The first micro-batch
// is added to zeros, and the last one does not include the update, so that all micro-batches share one
// program: variants without the sums or with the update would each have to be compiled, which takes as long
// as everything else, and would save only one pass over the gradients.

// losses is the number of sums before those of the gradients: the sum of losses and its
// divisor.
const losses = 2

// sumTypes returns the types of the sums over micro-batches, the same as on in-process devices. Gradients
// are those of the sum of losses, since its divisor, the number of labels that count, is known only at the
// end.
func sumTypes(c executor.Config) []ir.Type {
	types := []ir.Type{c.ScalarType(), c.ScalarType()}
	for _, p := range c.Params {
		types = append(types, ir.Type{DType: p.Type.DType.Compute(), Shape: p.Type.Shape})
	}
	return types
}

func sumParams(c executor.Config, b *ir.Builder) []*op.Tensor {
	names := []string{"loss.sum", "loss.count"}
	for _, p := range c.Params {
		names = append(names, p.Name+".sum")
	}
	list := make([]*op.Tensor, len(names))
	for i, t := range sumTypes(c) {
		list[i] = b.Param(names[i], t)
	}
	return list
}

// sumsProgram returns the program that makes zeros.
func sumsProgram(c executor.Config) (*ir.Func, error) {
	b := ir.NewBuilder("train_sums")
	var zeros []*op.Tensor
	for _, t := range sumTypes(c) {
		zeros = append(zeros, op.Full(b, t.DType, t.Shape, 0))
	}
	return b.Build(zeros...)
}

// cutLoss holds the loss of a batch as programs of its micro-batches.
type cutLoss struct {
	programs []*ir.Func
	variant  []int
	cut      *executor.Cutting
}

// cutLoss returns the loss programs for batches of these types.
func (r *Executor) cutLoss(batch []ir.Type) (*cutLoss, error) {
	key := fmt.Sprint(batch)
	if l := r.losses[key]; l != nil {
		return l, nil
	}
	rows, err := executor.RowsIn(batch)
	if err != nil {
		return nil, err
	}
	micros, err := executor.MicroRows(rows, r.micro)
	if err != nil {
		return nil, err
	}
	b := ir.NewBuilder("loss")
	number, params := executor.NewStepNumber(b), r.model.WeightParams(b)
	loss := executor.CheckedLoss(r.model.LossOf(params, executor.BatchParams(b, batch), number.Tensor), params)
	if loss.Err() != nil {
		return nil, loss.Err()
	}
	forms := executor.LossForms(loss, params, rows)
	f, err := b.Build(forms...)
	if err == nil {
		err = r.checkMeshes(f)
	}
	if err != nil {
		return nil, err
	}
	l := &cutLoss{}
	l.programs, l.variant, l.cut, err = executor.CutProgram(f, len(params), batch, micros, number,
		executor.FormIndex(forms)...)
	if err != nil {
		return nil, err
	}
	r.losses[key] = l
	return l, nil
}

// partProgram returns the program that adds a micro-batch to the sums. It takes the weights, the sums and the
// loss's other inputs, and returns the new sums.
func (r *Executor) partProgram(loss *ir.Func) (*ir.Func, error) {
	c, b := r.model, ir.NewBuilder("train_part")
	params, sums := c.WeightParams(b), sumParams(c, b)
	var in []*op.Tensor
	for _, v := range loss.Params()[len(params):] {
		in = append(in, b.Param(v.Name(), v.Type()))
	}
	used, gathered := r.group.used(params)
	next := loss.Replay(b, slices.Concat(used, in), nil)
	next = append(next, op.GradOnce(next[:1], nil, used)...)
	for i, x := range next {
		next[i] = op.Add(sums[i], op.Cast(x, sums[i].DType()))
	}
	p, err := b.Build(next...)
	if err == nil {
		p, err = c.OptimizeProgram(p)
	}
	if err == nil {
		p, err = executor.Recomputed(p, len(params), losses, policy(c), gathered)
	}
	return p, err
}

// updateProgram returns the program that ends a step. It takes the weights, the slots, the sums, the learning
// rate and the step number, and returns the results of a step.
func (r *Executor) updateProgram() (*ir.Func, error) {
	c, b := r.model, ir.NewBuilder("train_update")
	params, slots, sums := c.WeightParams(b), c.SlotParams(b), sumParams(c, b)
	rest := append(slots, b.Param("lr", c.ScalarType()), b.Param("count", c.ScalarType()))
	loss, scale := op.Div(sums[0], sums[1]), op.Reciprocal(sums[1])
	own, grads := r.group.updated(params, sums[losses:])
	p, err := b.Build(c.Update(loss, own, grads, rest, scale)...)
	if err != nil {
		return nil, err
	}
	return c.OptimizeProgram(p)
}

// startParts starts the programs of a step on a batch that is split into micro-batches. Its results are those
// of a step, by device.
func (r *Executor) startParts(numbers, batch []array.Array) ([][]backend.Buffer, error) {
	s, err := r.microSteps(executor.TypesOf(batch))
	if err != nil {
		return nil, err
	}
	micros, err := s.cut.Micros(batch, int(numbers[1].At(0)))
	if err != nil {
		return nil, err
	}
	sums, err := r.call(s.zeros, nil, inputs{})
	if err != nil {
		return nil, err
	}
	for i, part := range s.parts {
		in := inputs{micros[i], 0, len(batch)}
		if sums, err = r.runDonating(part, len(r.model.Params), sums, in); err != nil {
			return nil, err
		}
	}
	return r.runDonating(s.update, len(r.state[0]), sums, inputs{arrays: numbers})
}

// microSteps holds the compiled programs of a step on micro-batches, with one part for each.
type microSteps struct {
	zeros, update backend.Executable
	parts         []backend.Executable
	cut           *executor.Cutting
}

// microSteps compiles the programs of a step on batches of these types. All are compiled before the first
// runs, so that a compile error leaves the state unchanged.
func (r *Executor) microSteps(batch []ir.Type) (s microSteps, err error) {
	loss, err := r.cutLoss(batch)
	if err != nil {
		return s, err
	}
	s.cut = loss.cut
	for _, variant := range loss.variant {
		part, err := r.partStep(loss.programs[variant], len(batch))
		if err != nil {
			return s, err
		}
		s.parts = append(s.parts, part)
	}
	s.zeros, s.update, err = r.endPrograms()
	return s, err
}

// runDonating runs a program on the first n tensors of the state and on the sums, and donates the sums.
func (r *Executor) runDonating(
	exe backend.Executable,
	n int,
	sums [][]backend.Buffer,
	in inputs,
) ([][]backend.Buffer,
	error) {
	list := make([][]backend.Buffer, len(r.state))
	for d := range r.state {
		list[d] = append(r.state[d][:n:n], sums[d]...)
	}
	out, err := r.call(exe, list, in)
	if err != nil {
		free(sums)
	}
	return out, err
}

// partStep returns the compiled program for micro-batches with the given loss program. Its inputs are the
// given number of batch tensors, then those that all micro-batches share.
func (r *Executor) partStep(loss *ir.Func, batch int) (backend.Executable, error) {
	n := len(r.model.Params)
	return r.compiled(fmt.Sprint("part ", loss), func() (backend.Executable, error) {
		p, err := r.partProgram(loss)
		if err != nil {
			return nil, err
		}
		var at layouts
		if r.group != nil {
			inputs, _ := r.group.Inputs(loss, batch)
			if at, err = r.group.partLayouts(p, inputs); err != nil {
				return nil, err
			}
		}
		exe, err := r.compile(p, at, executor.UpTo(n, n+losses+n))
		if err == nil {
			m := exe.Memory()
			for _, slot := range r.state[0][n:] {
				m.Params += slot.Type().Bytes() // slots stay in memory during the program
			}
			r.recordMemory(m)
		}
		return exe, err
	})
}

// endPrograms compiles the programs that run before and after the micro-batches.
func (r *Executor) endPrograms() (zeros, update backend.Executable, err error) {
	zeros, err = r.compiled("sums", func() (backend.Executable, error) {
		p, err := sumsProgram(r.model)
		if err != nil {
			return nil, err
		}
		return r.compile(p, layouts{results: r.group.zeroSpecs()}, nil)
	})
	if err != nil {
		return nil, nil, err
	}
	update, err = r.compiled("update", func() (backend.Executable, error) {
		p, err := r.updateProgram()
		if err != nil {
			return nil, err
		}
		exe, err := r.compile(p, r.group.updateLayouts(),
			executor.UpTo(0, len(r.state[0])+losses+len(r.model.Params)))
		if err == nil {
			r.recordMemory(exe.Memory())
		}
		return exe, err
	})
	return zeros, update, err
}

// compiled returns the executable cached under a name, or makes it.
func (r *Executor) compiled(name string, make func() (backend.Executable, error)) (backend.Executable,
	error) {
	if exe, ok := r.exes[name]; ok {
		return exe, nil
	}
	exe, err := make()
	if err != nil {
		return nil, err
	}
	r.exes[name] = exe
	return exe, nil
}

// recordMemory records the memory that a program needs: the step needs that of the largest.
func (r *Executor) recordMemory(m cpu.Memory) {
	if m.Peak() > r.memory.Peak() {
		r.memory = m
	}
}
