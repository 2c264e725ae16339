// Command burgers trains a physics-informed network: of Burgers' equation, u_t + u u_x = ν u_xx, it knows
// nothing but the equation and how u begins and ends. What it finds is compared with the exact solution.
package main

import (
	"fmt"
	"io"
	"log"
	"math"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

const viscosity = 0.1

func main() {
	if _, err := run(os.Stdout, 2000); err != nil {
		log.Fatal(err)
	}
}

// run trains for so many steps and returns how far from the exact solution that leads.
func run(w io.Writer, steps int) (float64, error) {
	d := galley.CPU(galley.Config{})
	defer d.Close()
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1})
	u := newField(in)
	t, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: in.Params(), Optimizer: optim.Adam{},
		Schedule: optim.Cosine{LR: 5e-3, Warmup: 20, Steps: steps},
		Loss: func(batch []*op.Tensor) *op.Tensor {
			// All derivatives in one forward pass; gradients of the weights go through them.
			f := galley.Derivatives(u, batch[0], "", "x", "t", "xx")
			rest := op.Add(f[2], op.Mul(f[0], f[1]))
			return op.Mean(op.Square(op.Sub(rest, op.MulScalar(f[3], viscosity))))
		},
	})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	points := grid(32, 24)
	for i := range steps {
		m, err := t.Step(points)
		if err != nil {
			return 0, err
		}
		if i%500 == 0 || i == steps-1 {
			fmt.Fprintf(w, "step %4d  residual %.6f\n", i, m.Loss)
		}
	}
	e, err := distance(u, d.NewSession(), grid(21, 11))
	fmt.Fprintf(w, "relative error of u: %.4f\n", e)
	return e, err
}

// newField returns u(x, t): -sin πx when t is 0, and 0 where x is -1 or 1, whatever the network says.
func newField(in *nn.Init) func(xt *op.Tensor) *op.Tensor {
	var layers []*nn.Linear
	widths := []int{2, 20, 20, 20, 1}
	for i := range len(widths) - 1 {
		layers = append(layers, nn.NewLinear(in.At(fmt.Sprint("layer", i)), widths[i], widths[i+1]))
	}
	return func(xt *op.Tensor) *op.Tensor {
		x, t := op.Narrow(xt, 1, 0, 1), op.Narrow(xt, 1, 1, 2)
		h := xt
		for i, l := range layers {
			if h = l.Forward(h); i < len(layers)-1 {
				h = op.Tanh(h)
			}
		}
		edges := op.Mul(t, op.Sub(op.Const(x, 1), op.Square(x)))
		return op.Sub(op.Mul(edges, h), op.Sin(op.MulScalar(x, math.Pi)))
	}
}

// grid returns points of x from -1 to 1 and t from 0 to 1.
func grid(nx, nt int) array.Array {
	var points []float32
	for i := range nx {
		for j := range nt {
			points = append(points, -1+2*float32(i)/float32(nx-1), float32(j)/float32(nt-1))
		}
	}
	return array.FromSlice(points, nx*nt, 2)
}

// distance returns how far u is from the exact solution at points, relative to that.
func distance(u func(xt *op.Tensor) *op.Tensor, s *galley.Session, points array.Array) (float64, error) {
	got, err := galley.Read(u(s.Tensor(points)))
	if err != nil {
		return 0, err
	}
	var diff, norm float64
	for i := range got.Len() {
		want := exact(points.At(2*i), points.At(2*i+1))
		diff += (got.At(i) - want) * (got.At(i) - want)
		norm += want * want
	}
	return math.Sqrt(diff / norm), nil
}

// exact returns the solution by Cole and Hopf: a quotient of integrals over a heat kernel.
func exact(x, t float64) float64 {
	if t == 0 {
		return -math.Sin(math.Pi * x)
	}
	var above, below float64
	for i := -400; i <= 400; i++ {
		z := float64(i) / 50 // in deviations of the kernel
		y := x - z*math.Sqrt(2*viscosity*t)
		weight := math.Exp(-z*z/2 - math.Cos(math.Pi*y)/(2*math.Pi*viscosity))
		above -= math.Sin(math.Pi*y) * weight
		below += weight
	}
	return above / below
}
