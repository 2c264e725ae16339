package triton

import (
	"errors"
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
)

// Run runs every program of a kernel's grid, one after the other. The arrays are those that the kernel's
// parameters point to, in order; stores write to them. Floats are rounded to their types, and sums of a
// tensor are computed by halves.
func Run(text string, grid [3]int, args []array.Array) error {
	k, err := parse(text)
	if err != nil {
		return err
	}
	return k.run(grid, args, math.MaxInt)
}

// machine is the state of a run.
type machine struct {
	args    []buffer
	program [3]int
	// left is the number of elements that may still be computed.
	left int
}

// run runs a grid until limit elements have been computed.
func (k *kernel) run(grid [3]int, args []array.Array, limit int) error {
	if len(args) != len(k.params) {
		return fmt.Errorf("triton: kernel %s: got %d arguments: want %d", k.name, len(args), len(k.params))
	}
	m := &machine{left: limit}
	for i, a := range args {
		if want := dtypes[k.params[i].elem]; a.DType() != want {
			return fmt.Errorf("triton: kernel %s: argument %d is %v: want %v", k.name, i, a.DType(), want)
		}
		m.args = append(m.args, newBuffer(i, a))
	}
	for _, n := range grid {
		if n < 1 || n > math.MaxInt32 {
			return fmt.Errorf("triton: kernel %s: grid is %v: want numbers from 1", k.name, grid)
		}
	}
	for z := range grid[2] {
		for y := range grid[1] {
			for x := range grid[0] {
				m.program = [3]int{x, y, z}
				if err := m.block(k.body); err != nil {
					return k.explain(m, err)
				}
			}
		}
	}
	return nil
}

// fault is why an operation cannot run.
type fault struct {
	error
	op *operation
}

// explain adds the position of a fault.
func (k *kernel) explain(m *machine, err error) error {
	var f fault
	if errors.As(err, &f) {
		return fmt.Errorf("triton: kernel %s: %s: %s: program %v: %w", k.name, place(k.text, f.op.at), f.op.name,
			m.program, f.error)
	}
	return fmt.Errorf("triton: kernel %s: program %v: %w", k.name, m.program, err)
}

var errLimit = errors.New("too much to compute")

func (m *machine) block(ops []*operation) error {
	if m.left--; m.left < 0 { // empty loops count, too
		return errLimit
	}
	for _, o := range ops {
		if m.left -= o.lanes; m.left < 0 {
			return errLimit
		}
		if err := o.eval(m, o); err != nil {
			if f := (fault{}); errors.As(err, &f) || errors.Is(err, errLimit) {
				return err
			}
			return fault{err, o}
		}
	}
	return nil
}
