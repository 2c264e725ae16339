// Flow has loops, choices and dims that vary in programs.
package main

import (
	"fmt"
	"log"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dynamic"
	"github.com/galley-ml/galley/op"
)

func main() {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	s := d.NewSession()
	for _, f := range []func(*galley.Session) ([]*op.Tensor, error){recurrence, root, guarded} {
		ys, err := f(s)
		if err != nil {
			log.Fatal(err)
		}
		for i, y := range ys {
			a, err := galley.Read(y)
			if err != nil {
				log.Fatal(err)
			}
			if i > 0 {
				fmt.Print(" ")
			}
			fmt.Printf("%.4f", a.Float64s())
		}
		fmt.Println()
	}
	if err := lengths(d); err != nil {
		log.Fatal(err)
	}
}

// recurrence goes through the rows of x with a state, and has the gradient of its end by the weights.
func recurrence(s *galley.Session) ([]*op.Tensor, error) {
	x := s.Tensor(array.FromSlice([]float64{1, 0, 0, 1, 1, 1}, 3, 1, 2))
	w := s.Tensor(array.FromSlice([]float64{0.5, -0.5, 0.25, 1}, 2, 2)).Track()
	h := op.Zeros(s, array.F64, 1, 2)
	last, rows := op.Scan(func(carry, x []*op.Tensor) (next, y []*op.Tensor) {
		h := op.Tanh(op.Add(op.MatMul(carry[0], w), x[0]))
		return []*op.Tensor{h}, []*op.Tensor{op.Sum(h)}
	}, []*op.Tensor{h}, []*op.Tensor{x})
	return append(rows, op.Grad([]*op.Tensor{op.Sum(last[0])}, nil, []*op.Tensor{w})...), nil
}

// root is Newton's way to a square root, as many steps as it takes, and its derivative.
func root(s *galley.Session) ([]*op.Tensor, error) {
	a := s.Tensor(array.FromSlice([]float64{2}, 1)).Track()
	y := op.WhileWith(op.WhileConfig{MaxTrips: 20}, func(x []*op.Tensor) *op.Tensor {
		return op.Greater(op.Sum(op.Abs(op.Sub(op.Square(x[0]), a))), op.Const(a, 1e-12))
	}, func(x []*op.Tensor) []*op.Tensor {
		return []*op.Tensor{op.MulScalar(op.Add(x[0], op.Div(a, x[0])), 0.5)}
	}, op.OnesLike(a))[0]
	return []*op.Tensor{y, op.Grad([]*op.Tensor{y}, nil, []*op.Tensor{a})[0]}, nil
}

// guarded scales a gradient down where its norm is large, and computes nothing where it is not.
func guarded(s *galley.Session) ([]*op.Tensor, error) {
	g := s.Tensor(array.FromSlice([]float64{3, 4}, 2))
	norm := op.Sqrt(op.Sum(op.Square(g)))
	return op.Cond(op.Greater(norm, op.Const(norm, 1)),
		func(x []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.Div(x[0], norm)} },
		func(x []*op.Tensor) []*op.Tensor { return x }, g), nil
}

// lengths returns the mean over as many steps as a sequence has.
func lengths(d *galley.Device) error {
	shapes, err := dynamic.New(dynamic.Config{
		Axes: []dynamic.Axis{{Name: "time", Buckets: []int{16, 64}}},
		In:   []string{"time,_"}, Masks: []string{"time"}, Programs: 2,
		Log: func(line string) { fmt.Println(line) },
	})
	if err != nil {
		return err
	}
	mean := dynamic.Compile(d, "mean", shapes, func(in []*op.Tensor) []*op.Tensor {
		x, mask := in[0], op.Unsqueeze(in[1], 1)
		return []*op.Tensor{op.Div(op.Sum(op.Mul(x, mask), 0), op.Sum(mask))}
	})
	for _, steps := range []int{5, 12, 40} {
		x := array.New(array.F32, steps, 1)
		for i := range steps {
			x.Set(i, float64(i))
		}
		y, err := mean.Run(x)
		if err != nil {
			return err
		}
		fmt.Println(steps, "steps:", y[0].Float64s())
	}
	return nil
}
