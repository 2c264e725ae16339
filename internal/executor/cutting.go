package executor

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/op"
)

// Cutting splits a batch into micro-batches.
type Cutting struct {
	Rows []int
	// shared has the tensors that all micro-batches receive in addition, those that a program captured.
	// given, if not nil, computes more of them from the whole batch.
	shared []array.Array
	given  *cpu.Executable
	// numbered reports whether the first of shared is the step number.
	numbered bool
}

// NeedsWhole reports whether micro-batches receive tensors that are computed from the whole batch.
func (c *Cutting) NeedsWhole() bool { return c.given != nil }

// StepNumber is the step number as a program parameter, which is added after the batch if the program uses
// it.
type StepNumber struct {
	b *ir.Builder
	x *op.Tensor
}

// NewStepNumber returns the step number of the program that b builds.
func NewStepNumber(b *ir.Builder) *StepNumber { return &StepNumber{b: b} }

// Tensor returns the number, an i64 scalar.
func (n *StepNumber) Tensor() *op.Tensor {
	if n.x == nil {
		n.x = n.b.Param("step", ir.Type{DType: array.I64})
	}
	return n.x
}

// Micros splits the batch of a step into micro-batches.
func (c *Cutting) Micros(batch []array.Array, step int) ([][]array.Array, error) {
	if c.numbered {
		c.shared[0] = array.Scalar(int64(step))
	}
	parts, err := CutRows(batch, c.Rows)
	if err != nil {
		return nil, err
	}
	more := c.shared
	if c.given != nil {
		known, err := c.given.Run(slices.Concat(batch, c.shared))
		if err != nil {
			return nil, err
		}
		more = slices.Concat(c.shared, known)
	}
	for m := range parts {
		parts[m] = append(parts[m], more...)
	}
	return parts, nil
}

// CutProgram turns a program of weights and a whole batch into programs of its micro-batches, one per kind,
// and returns which kind each micro-batch uses; number is the step number, nil if there is none. Results
// without rows must add up over micro-batches; forms are alternative lists of results, and the first that
// adds up is used.
func CutProgram(f *ir.Func, weights int, batch []ir.Type, rows []int, number *StepNumber,
	forms ...[]int) (list []*ir.Func, variant []int, c *Cutting, err error) {
	c = &Cutting{Rows: rows}
	if number != nil && number.x != nil {
		c.numbered, c.shared = true, append(c.shared, array.Array{})
	}
	for _, x := range f.Captures() {
		a, err := cpu.Read(x)
		if err != nil {
			return nil, nil, nil, err
		}
		c.shared = append(c.shared, a)
	}
	all, err := RowsIn(batch)
	if err != nil {
		return nil, nil, nil, err
	}
	cut := make([]bool, len(f.Params()))
	for i, t := range batch {
		cut[weights+i] = len(rows) > 1 && hasRows(t, all)
	}
	var r *stage.Rows
	for _, form := range forms {
		g, err := returning(f, form)
		if err != nil {
			return nil, nil, nil, err
		}
		r = stage.NewRows(g, stage.RowsConfig{Weights: weights, Cut: cut, Rows: all})
		if r.Check() == nil {
			break
		}
	}
	if err := r.Check(); err != nil {
		return nil, nil, nil, fmt.Errorf("%w: want micro=1, or a loss that is a mean or a sum over rows", err)
	}
	if list, variant, err = parts(r, rows); err != nil {
		return nil, nil, nil, err
	}
	c.given, err = compileGiven(r)
	return list, variant, c, err
}

// returning returns the program with only the given results.
func returning(f *ir.Func, results []int) (*ir.Func, error) {
	b := ir.NewBuilder(f.Name())
	all := f.Replay(b, b.ParamsOf(f), nil)
	var own []*op.Tensor
	for _, i := range results {
		own = append(own, all[i])
	}
	g, err := b.Build(own...)
	if err != nil {
		return nil, err
	}
	return pass.Prune(g)
}

// parts returns the programs of micro-batches: one for each size, or one for each micro-batch if the program
// depends on the rows' positions.
func parts(r *stage.Rows, rows []int) (list []*ir.Func, variant []int, err error) {
	start, sizes := 0, map[int]int{}
	for _, n := range rows {
		at, ok := sizes[n]
		if !ok {
			p, moves, err := r.Part(start, n)
			if err != nil {
				return nil, nil, err
			}
			at, list = len(list), append(list, p)
			if !moves {
				sizes[n] = at
			}
		}
		variant, start = append(variant, at), start+n
	}
	return list, variant, nil
}

// compileGiven compiles the part that is computed from the whole batch; it returns nil if there is none.
func compileGiven(r *stage.Rows) (*cpu.Executable, error) {
	f, err := r.Given()
	if f == nil || err != nil {
		return nil, err
	}
	return Compile(cpu.NewDevice(cpu.Config{Threads: 1}), f, cpu.Options{})
}
