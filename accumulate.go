package galley

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// On a backend a step of several micro-batches is three programs: train_sums makes zeros, train_part adds the loss and the gradients of a
// micro-batch to them, and train_update ends the step. The first micro-batch is added to zeros, and the last one leaves its gradients
// to the update, so that all run one program: one without the sums before it, or with the update behind it, would be compiled besides,
// which takes as long as all else, and save a pass over the gradients.

// losses is how many of the sums come before those of gradients: the sum of losses and what it is to be divided by.
const losses = 2

// sumTypes is the types of what is summed over micro-batches, as in-process devices sum it: gradients are those of the sum of losses,
// since what that is to be divided by, the labels that count, is known at the end.
func (c TrainerConfig) sumTypes() []Type {
	types := []Type{c.scalarType(), c.scalarType()}
	for _, p := range c.Params {
		types = append(types, Type{DType: p.Type.DType.Compute(), Shape: p.Type.Shape})
	}
	return types
}

func (c TrainerConfig) sumParams(b *ir.Builder) []*Tensor {
	names := []string{"loss.sum", "loss.count"}
	for _, p := range c.Params {
		names = append(names, p.Name+".sum")
	}
	list := make([]*Tensor, len(names))
	for i, t := range c.sumTypes() {
		list[i] = b.Param(names[i], t)
	}
	return list
}

// sumsProgram makes zeros.
func (c TrainerConfig) sumsProgram() (*Program, error) {
	b := ir.NewBuilder("train_sums")
	var zeros []*Tensor
	for _, t := range c.sumTypes() {
		zeros = append(zeros, op.Full(b, t.DType, t.Shape, 0))
	}
	return b.Build(zeros...)
}

// cutLoss is the loss of a batch as programs of its micro-batches.
type cutLoss struct {
	programs []*Program
	variant  []int
	cut      *cutting
}

// cutLoss is the loss of batches of these types.
func (t *Trainer) cutLoss(batch []Type) (*cutLoss, error) {
	key := fmt.Sprint(batch)
	if l := t.remote.losses[key]; l != nil {
		return l, nil
	}
	rows, err := rowsIn(batch)
	if err != nil {
		return nil, err
	}
	micros, err := microRows(rows, t.remote.micro)
	if err != nil {
		return nil, err
	}
	b := ir.NewBuilder("loss")
	number, params := &stepNumber{b: b}, t.c.weightParams(b)
	loss := checkedLoss(t.c.lossOf(params, batchParams(b, batch), number.tensor), params)
	if loss.Err() != nil {
		return nil, loss.Err()
	}
	forms := lossForms(loss, params, rows)
	f, err := b.Build(forms...)
	if err != nil {
		return nil, err
	}
	l := &cutLoss{}
	if l.programs, l.variant, l.cut, err = cutProgram(f, len(params), batch, micros, number, formIndex(forms)...); err != nil {
		return nil, err
	}
	t.remote.losses[key] = l
	return l, nil
}

// partProgram adds a micro-batch to the sums: it takes the weights, the sums and what the loss takes besides weights, and returns
// the next sums.
func (t *Trainer) partProgram(loss *Program) (*Program, error) {
	c, b := t.c, ir.NewBuilder("train_part")
	params, sums := c.weightParams(b), c.sumParams(b)
	var in []*Tensor
	for _, v := range loss.Params()[len(params):] {
		in = append(in, b.Param(v.Name(), v.Type()))
	}
	used, gathered := t.remote.together.used(params)
	next := loss.Replay(b, slices.Concat(used, in), nil)
	next = append(next, op.GradOnce(next[:1], nil, used)...)
	for i, x := range next {
		next[i] = op.Add(sums[i], op.Cast(x, sums[i].DType()))
	}
	p, err := b.Build(next...)
	if err == nil {
		p, err = pass.Optimize(p)
	}
	if err == nil {
		p, err = recomputed(p, len(params), losses, c.recomputes(), gathered)
	}
	return p, err
}

// updateProgram ends a step: it takes the weights, the slots, the sums, the learning rate and the step's number and returns what a
// step does.
func (t *Trainer) updateProgram() (*Program, error) {
	c, b, together := t.c, ir.NewBuilder("train_update"), t.remote.together
	params, slots, sums := c.weightParams(b), c.slotParams(b), c.sumParams(b)
	rest := append(slots, b.Param("lr", c.scalarType()), b.Param("count", c.scalarType()))
	loss, scale := op.Div(sums[0], sums[1]), op.Reciprocal(sums[1])
	own, grads := together.updated(params, sums[losses:])
	p, err := b.Build(c.update(loss, own, grads, rest, scale)...)
	if err != nil {
		return nil, err
	}
	return pass.Optimize(p)
}

// startParts starts the programs of a step on a batch that is cut into micro-batches. Its results are those of a step, by device.
func (t *Trainer) startParts(numbers, batch []array.Array) ([][]backend.Buffer, error) {
	r := t.remote
	loss, err := t.cutLoss(typesOf(batch))
	if err != nil {
		return nil, err
	}
	micros, err := loss.cut.micros(batch, t.step+1-t.skipped)
	if err != nil {
		return nil, err
	}
	// All programs are there before the first runs: what goes wrong with one leaves the state as it was.
	parts := make([]backend.Executable, len(micros))
	for i := range micros {
		if parts[i], err = t.partStep(loss, loss.variant[i]); err != nil {
			return nil, err
		}
	}
	zeros, update, err := t.ends()
	if err != nil {
		return nil, err
	}
	sums, err := r.call(zeros, nil, nil, 0)
	if err != nil {
		return nil, err
	}
	for i, part := range parts {
		if sums, err = r.spend(part, len(t.c.Params), sums, micros[i], 0); err != nil {
			return nil, err
		}
	}
	return r.spend(update, len(r.state[0]), sums, numbers, len(numbers))
}

// spend calls a program on the first n tensors of the state and on the sums, which are then gone.
func (r *remote) spend(exe backend.Executable, n int, sums [][]backend.Buffer, in []array.Array, whole int) ([][]backend.Buffer, error) {
	list := make([][]backend.Buffer, len(r.state))
	for d := range r.state {
		list[d] = append(r.state[d][:n:n], sums[d]...)
	}
	out, err := r.call(exe, list, in, whole)
	if err != nil {
		free(sums)
	}
	return out, err
}

// partStep is the compiled program for a kind of micro-batches.
func (t *Trainer) partStep(loss *cutLoss, variant int) (backend.Executable, error) {
	r, n := t.remote, len(t.c.Params)
	f := loss.programs[variant]
	var types []Type
	for _, v := range f.Params()[n:] {
		types = append(types, v.Type())
	}
	return r.compiled(fmt.Sprint("part ", f), func() (backend.Executable, error) {
		p, err := t.partProgram(f)
		if err != nil {
			return nil, err
		}
		var at lies
		if r.together != nil {
			if at, err = r.together.partLies(p, types); err != nil {
				return nil, err
			}
		}
		exe, err := r.compile(p, at, upTo(n, n+losses+n))
		if err == nil {
			m := exe.Memory()
			for _, slot := range r.state[0][n:] {
				m.Params += slot.Type().Bytes() // it lies there meanwhile
			}
			r.needs(m)
		}
		return exe, err
	})
}

// ends is the compiled programs before and behind those of micro-batches.
func (t *Trainer) ends() (zeros, update backend.Executable, err error) {
	r := t.remote
	zeros, err = r.compiled("sums", func() (backend.Executable, error) {
		p, err := t.c.sumsProgram()
		if err != nil {
			return nil, err
		}
		return r.compile(p, lies{results: r.together.zeroSpecs()}, nil)
	})
	if err != nil {
		return nil, nil, err
	}
	update, err = r.compiled("update", func() (backend.Executable, error) {
		p, err := t.updateProgram()
		if err != nil {
			return nil, err
		}
		exe, err := r.compile(p, r.together.updateLies(), upTo(0, len(r.state[0])+losses+len(t.c.Params)))
		if err == nil {
			r.needs(exe.Memory())
		}
		return exe, err
	})
	return zeros, update, err
}

// compiled is the executable that is kept under a name, or made now.
func (r *remote) compiled(name string, make func() (backend.Executable, error)) (backend.Executable, error) {
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

// needs notes what a program of a step needs: the step needs as much as the largest.
func (r *remote) needs(m cpu.Memory) {
	if m.Peak() > r.memory.Peak() {
		r.memory = m
	}
}

// upTo is the numbers from lo up to hi, without hi.
func upTo(lo, hi int) []int {
	list := make([]int, hi-lo)
	for i := range list {
		list[i] = lo + i
	}
	return list
}
