package galley

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/stage"
)

// microRows is how many of a batch's rows each of n micro-batches has: as evenly as it goes, the larger ones first.
func microRows(batch, n int) ([]int, error) {
	if batch < n {
		return nil, fmt.Errorf("strategy: a batch of %d rows cannot be cut into %d micro-batches: want micro=%d or a batch of %d", batch, n, batch, n)
	}
	return spread(batch, n), nil
}

// spread is n rows in k groups, the larger ones first.
func spread(n, k int) []int {
	rows := make([]int, k)
	for i := range rows {
		rows[i] = n / k
		if i < n%k {
			rows[i]++
		}
	}
	return rows
}

// rowsIn is how many rows a batch of these types has: scalars have none, they are the same for all rows.
func rowsIn(batch []Type) (int, error) {
	for _, t := range batch {
		if len(t.Shape) > 0 {
			return t.Shape[0], nil
		}
	}
	return 0, fmt.Errorf("strategy: batch is %v: want tensors whose first dim can be cut", batch)
}

// cutRows cuts a batch. Scalars go to every part.
func cutRows(batch []array.Array, rows []int) ([][]array.Array, error) {
	all, err := rowsIn(typesOf(batch))
	if err != nil {
		return nil, err
	}
	parts := make([][]array.Array, len(rows))
	at := 0
	for m, n := range rows {
		for _, a := range batch {
			switch s := a.Shape(); {
			case len(s) == 0 || len(rows) == 1:
				parts[m] = append(parts[m], a)
			case s[0] != all:
				return nil, fmt.Errorf("batch: tensors of %d rows and of shape %v: want as many rows, or no micro-batches", all, s)
			default:
				parts[m] = append(parts[m], a.Rows(at, at+n))
			}
		}
		at += n
	}
	return parts, nil
}

// cutting is how a batch becomes micro-batches.
type cutting struct {
	rows []int
	// shared is what all micro-batches are given besides, the tensors that a program captured; given, where it is not nil, computes
	// more of it from the whole batch and them.
	shared []array.Array
	given  *Executable
	// numbered is whether the first of shared is the number of the step.
	numbered bool
}

// stepNumber is the number of a step as a parameter of a program, which it has after those of the batch if it asks for it.
type stepNumber struct {
	b *ir.Builder
	x *Tensor
}

func (n *stepNumber) tensor() *Tensor {
	if n.x == nil {
		n.x = n.b.Param("step", Type{DType: array.I64})
	}
	return n.x
}

// micros cuts a batch of a step.
func (c *cutting) micros(batch []array.Array, step int) ([][]array.Array, error) {
	if c.numbered {
		c.shared[0] = array.Scalar(int64(step))
	}
	parts, err := cutRows(batch, c.rows)
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

// cutProgram is a program of weights and a whole batch as programs of its micro-batches, one for each kind of them, and which of
// them each takes; number is that of the step, nil where there are none. Results without rows add up over micro-batches; forms are lists of results, of which the first is taken that does.
func cutProgram(f *Program, weights int, batch []Type, rows []int, number *stepNumber, forms ...[]int) (list []*Program, variant []int, c *cutting, err error) {
	c = &cutting{rows: rows}
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
	all, err := rowsIn(batch)
	if err != nil {
		return nil, nil, nil, err
	}
	cut := make([]bool, len(f.Params()))
	for i, t := range batch {
		cut[weights+i] = len(rows) > 1 && len(t.Shape) > 0
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

// returning is a program of some of another's results.
func returning(f *Program, results []int) (*Program, error) {
	b := ir.NewBuilder(f.Name())
	all := f.Replay(b, b.ParamsOf(f), nil)
	var own []*Tensor
	for _, i := range results {
		own = append(own, all[i])
	}
	g, err := b.Build(own...)
	if err != nil {
		return nil, err
	}
	return pass.Prune(g)
}

// parts is the programs of micro-batches: one for each size, or one for each where it matters which rows they are.
func parts(r *stage.Rows, rows []int) (list []*Program, variant []int, err error) {
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

// compileGiven compiles what is computed from the whole batch; it is nil where nothing is.
func compileGiven(r *stage.Rows) (*Executable, error) {
	f, err := r.Given()
	if f == nil || err != nil {
		return nil, err
	}
	return Compile(CPU(Config{Threads: 1}), f, Options{})
}
