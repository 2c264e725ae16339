package accelerator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
)

// forward is a forward pass on a backend, where the parameters are.
type forward struct {
	r *Executor
	f executor.Func
	// exes is the compiled programs by the types of their batches and how the state lay.
	exes map[string]backend.Executable
}

// Forward makes a forward pass of f. It is compiled when the first batch of each size is run.
func (r *Executor) Forward(f executor.Func) executor.Forward {
	return &forward{r: r, f: f, exes: map[string]backend.Executable{}}
}

// Plan is refused: the backend's compiler plans memory.
func (f *forward) Plan(batch ...ir.Type) (*executor.Plan, error) { return f.r.Plan(batch...) }

// Close gives back what the pass holds on the backend.
func (f *forward) Close() (err error) {
	for _, e := range f.exes {
		err = errors.Join(err, e.Close())
	}
	clear(f.exes)
	return err
}

// Run runs a batch in as many micro-batches as training takes, or as there can be.
func (f *forward) Run(_ context.Context, batch []array.Array) (parts [][]array.Array, rows []int, err error) {
	micros, err := f.r.micros(batch)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range micros {
		out, err := f.one(m)
		if err != nil {
			return nil, nil, err
		}
		parts, rows = append(parts, out), append(rows, m[0].Shape()[0])
	}
	return parts, rows, nil
}

// micros cuts a batch of any size into micro-batches, at most as many as a step has. Those that several
// devices share are equal, so that each device has as many rows.
func (r *Executor) micros(batch []array.Array) ([][]array.Array, error) {
	if r.micro == 1 || len(batch[0].Shape()) == 0 {
		return [][]array.Array{batch}, nil
	}
	rows := batch[0].Shape()[0]
	n := max(1, min(rows, r.micro))
	if s := r.group; s != nil {
		each := s.mesh().Count(s.Batch(ir.TypeOf(batch[0])).Spec.Dims[0])
		for n > 1 && rows%(n*each) != 0 {
			n--
		}
	}
	if n == 1 {
		return [][]array.Array{batch}, nil
	}
	return executor.CutRows(batch, executor.Spread(rows, n))
}

// one runs a micro-batch.
func (f *forward) one(batch []array.Array) ([]array.Array, error) {
	r := f.r
	if err := r.open(); err != nil {
		return nil, err
	}
	e, err := f.compiled(executor.TypesOf(batch))
	if err == nil {
		err = r.splitWeights()
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

func (f *forward) compiled(types []ir.Type) (backend.Executable, error) {
	r := f.r
	key := fmt.Sprint(types, r.fused != nil, r.split)
	if e := f.exes[key]; e != nil {
		return e, nil
	}
	p, err := r.c.TraceForward("forward", types, r.sees(f.f))
	if err == nil {
		p, err = pass.Optimize(p)
	}
	if err == nil && len(r.split) > 0 {
		p, err = onSplit(p, r.split, len(r.c.Params), -1)
	}
	if err != nil {
		return nil, err
	}
	var at layouts
	if s := r.group; s != nil {
		at = s.forwardLayouts(types, p)
	}
	e, err := r.compile(p, at, nil)
	if err == nil {
		f.exes[key] = e
	}
	return e, err
}
