package accelerator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
)

// forward is a forward pass on a backend, where the parameters are.
type forward struct {
	r *Executor
	f executor.Func
	// passes holds the compiled programs by the types of their batches and the layout of the state.
	passes map[string]*forwardParts
}

// forwardParts is the programs for batches of some types: one for each kind of micro-batch.
type forwardParts struct {
	cut     *executor.Cutting
	variant []int
	exes    []backend.Executable
}

// Forward makes a forward pass of f. It is compiled when the first batch of each size is run.
func (r *Executor) Forward(f executor.Func) executor.Forward {
	return &forward{r: r, f: f, passes: map[string]*forwardParts{}}
}

// Plan returns an error: the backend's compiler plans memory.
func (f *forward) Plan(...ir.Type) (*executor.Plan, error) {
	return nil, fmt.Errorf("forward pass: %s plans memory when it compiles: there is no plan before a run",
		f.r.b.Name())
}

// Close releases what the pass holds on the backend.
func (f *forward) Close() (err error) {
	for _, p := range f.passes {
		for _, e := range p.exes {
			err = errors.Join(err, e.Close())
		}
	}
	clear(f.passes)
	return err
}

// Run runs a batch in as many micro-batches as a training step, or fewer if it has too few rows.
func (f *forward) Run(_ context.Context, batch []array.Array) (parts [][]array.Array, rows []int, err error) {
	if err := f.r.open(); err != nil {
		return nil, nil, err
	}
	p, err := f.compiled(executor.TypesOf(batch))
	if err == nil {
		err = f.r.splitWeights()
	}
	if err != nil {
		return nil, nil, err
	}
	micros := [][]array.Array{batch}
	if len(p.variant) > 1 {
		if micros, err = p.cut.Micros(batch, 0); err != nil {
			return nil, nil, err
		}
	}
	for m, in := range micros {
		out, err := f.r.forward(p.exes[p.variant[m]], inputs{in, 0, len(batch)})
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, out)
	}
	return parts, p.cut.Rows, nil
}

// microRows returns the rows of each micro-batch of a batch of any size, at most as many micro-batches as a
// step has. On several devices micro-batches are equal, so that each device has equally many rows.
func (r *Executor) microRows(batch []ir.Type) []int {
	rows, err := executor.RowsIn(batch)
	if err != nil {
		return []int{1} // a batch of scalars is not split
	}
	n := max(1, min(rows, r.micro))
	if s := r.group; s != nil {
		each := s.mesh().Count(s.Batch(ir.Type{Shape: array.Shape{rows}}).Spec.Dims[0])
		for n > 1 && rows%(n*each) != 0 {
			n--
		}
	}
	return executor.Spread(rows, n)
}

// forward runs a program of the parameters and reads its results.
func (r *Executor) forward(exe backend.Executable, in inputs) ([]array.Array, error) {
	defer r.inFlight.begin("forward")()
	params := make([][]backend.Buffer, len(r.state))
	for i, list := range r.state {
		params[i] = slices.Concat(list[:len(r.c.Params)], list[r.owned:])
	}
	all, err := r.call(exe, params, in)
	if err != nil {
		return nil, err
	}
	results := all[0] // results are replicated on every device
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

// compiled returns the programs for batches of these types. They are traced on the whole batch and then
// split, as a step is, so that results do not depend on how the batch is split.
func (f *forward) compiled(types []ir.Type) (*forwardParts, error) {
	r := f.r
	key := fmt.Sprint(types, r.fused != nil, r.split)
	if p := f.passes[key]; p != nil {
		return p, nil
	}
	whole, err := r.c.TraceForward("forward", types, r.onFused(f.f))
	if err == nil {
		err = r.checkMeshes(whole)
	}
	if err != nil {
		return nil, err
	}
	out := &forwardParts{variant: []int{0}, cut: &executor.Cutting{Rows: r.microRows(types)}}
	list := []*ir.Func{whole}
	if rows := out.cut.Rows; len(rows) > 1 {
		list, out.variant, out.cut, err = executor.CutProgram(whole, len(r.c.Params), types, rows, nil,
			executor.UpTo(0, len(whole.Results())))
		if err != nil {
			return nil, err
		}
	}
	for _, p := range list {
		exe, err := f.compile(p, len(types))
		if err != nil {
			return nil, err
		}
		out.exes = append(out.exes, exe)
	}
	f.passes[key] = out
	return out, nil
}

// compile compiles the program of a micro-batch with the given number of tensors.
func (f *forward) compile(p *ir.Func, batch int) (backend.Executable, error) {
	r := f.r
	p, err := pass.Optimize(p)
	if err == nil && len(r.split) > 0 {
		p, err = onSplit(p, r.split, len(r.c.Params), -1)
	}
	if err != nil {
		return nil, err
	}
	var at layouts
	if s := r.group; s != nil {
		at = s.forwardLayouts(batch, p)
	}
	return r.compile(p, at, nil)
}
