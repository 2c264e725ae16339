package op_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// networks is those of two inputs with tanh between small layers, in all the ways that one can write them,
// and some that are something else.
var networks = []struct {
	name    string
	weights [][]int
	matched bool
	net     func(x *op.Tensor, w []*op.Tensor) *op.Tensor
}{
	{"three layers", [][]int{{2, 5}, {5}, {5, 7}, {7}, {7, 1}, {1}}, true,
		func(x *op.Tensor, w []*op.Tensor) *op.Tensor {
			h := op.Tanh(op.LinearT(x, w[0], w[1]))
			return op.LinearT(op.Tanh(op.LinearT(h, w[2], w[3])), w[4], w[5])
		}},
	{"the other way round, no bias", [][]int{{5, 2}, {1, 5}}, true,
		func(x *op.Tensor, w []*op.Tensor) *op.Tensor {
			return op.Linear(op.Tanh(op.Linear(x, w[0], nil)), w[1], nil)
		}},
	{"fused", [][]int{{2, 5}, {5}, {3, 5}, {3}, {3, 1}, {1}}, true,
		func(x *op.Tensor, w []*op.Tensor) *op.Tensor {
			h := op.Tanh(op.FusedLinear(op.Tanh(op.FusedLinearT(x, w[0], w[1])), w[2], w[3]))
			return op.LinearT(h, w[4], w[5])
		}},
	{"around a layer", [][]int{{2, 5}, {5}, {5, 5}, {5}, {5, 1}, {1}}, false,
		func(x *op.Tensor, w []*op.Tensor) *op.Tensor {
			h := op.Tanh(op.LinearT(x, w[0], w[1]))
			return op.LinearT(op.Add(h, op.Tanh(op.LinearT(h, w[2], w[3]))), w[4], w[5])
		}},
	{"a wide layer", [][]int{{2, 65}, {65}, {65, 1}, {1}}, false,
		func(x *op.Tensor, w []*op.Tensor) *op.Tensor {
			return op.LinearT(op.Tanh(op.LinearT(x, w[0], w[1])), w[2], w[3])
		}},
	{"weights of the points", [][]int{{7, 1}, {1}}, false,
		func(x *op.Tensor, w []*op.Tensor) *op.Tensor {
			return op.LinearT(op.Tanh(op.MatMulT(x, x, false, true)), w[0], w[1])
		}},
	{"another function", [][]int{{2, 5}, {5}, {5, 1}, {1}}, false,
		func(x *op.Tensor, w []*op.Tensor) *op.Tensor {
			return op.LinearT(op.Sin(op.LinearT(x, w[0], w[1])), w[2], w[3])
		}},
}

// TestSmallNetworks: derivatives of small networks and gradients through them, mixed ones among them, have
// the same bits traced and eagerly, and are what ops one by one compute.
func TestSmallNetworks(t *testing.T) {
	d := device(t, 2)
	for _, c := range networks {
		args := []op.Arg{{Type: op.Type{DType: array.F64, Shape: array.Shape{7, 2}}}}
		for _, s := range c.weights {
			args = append(args, op.Arg{Type: op.Type{DType: array.F64, Shape: s}, Low: -1, High: 1})
		}
		for _, names := range [][]string{{"", "x", "t", "xx"}, {"t", "xx", "xt", "xxt"}, {"", "xxx", "t"}} {
			apart := false
			step := func(in []*op.Tensor) []*op.Tensor {
				net := func(x *op.Tensor) *op.Tensor {
					if apart { // the network is not that of x any more, so its ops stay as they are
						x = op.Neg(op.Neg(x))
					}
					return c.net(x, in[1:])
				}
				out := op.Derivatives(net, in[0], names...)
				loss := op.Mean(op.Square(out[0]))
				for i, y := range out[1:] {
					loss = op.Add(loss, op.Mean(op.Mul(y, out[i])))
				}
				return append(append(out, loss), op.Grad([]*op.Tensor{loss}, nil, in)...)
			}
			in := fillAll(args, array.F64, 5)
			eager := step(at(d.NewSession(), in))
			static := compiled(t, d, in, step)
			apart = true
			for i, want := range step(at(d.NewSession(), in)) {
				what := fmt.Sprint(c.name, " ", names, ": result ", i)
				closeTo(t, what, static[i], read(t, want))
				if e := distance(static[i], read(t, eager[i])); e != 0 {
					t.Errorf("%s: eager and compiled differ by %g", what, e)
				}
			}
			apart = false
			if names[0] == "" && len(names) == 4 && matched(args, step) != c.matched {
				t.Errorf("%s: one op for all: got %v, want %v", c.name, !c.matched, c.matched)
			}
		}
	}
}

// TestSmallNetworksWatched: who asks for the gradient of a value within a network gets it, or is told when
// to ask.
func TestSmallNetworksWatched(t *testing.T) {
	s := device(t, 1).NewSession()
	args := fillAll([]op.Arg{{Type: op.Type{DType: array.F64, Shape: array.Shape{3, 2}}},
		{Type: op.Type{DType: array.F64, Shape: array.Shape{2, 4}}},
		{Type: op.Type{DType: array.F64, Shape: array.Shape{4, 1}}}}, array.F64, 5)
	for _, before := range []bool{true, false} {
		in := at(s, args)
		var hidden *op.Tensor
		net := func(x *op.Tensor) *op.Tensor {
			hidden = op.Tanh(op.MatMul(x, in[1]))
			if before {
				if err := hidden.RetainGrad(); err != nil {
					t.Fatal(err)
				}
			}
			return op.MatMul(hidden, in[2])
		}
		d := op.Derivatives(net, in[0], "x", "tt")
		if !before {
			if err := hidden.RetainGrad(); err == nil || !strings.Contains(err.Error(), "before derivatives are") {
				t.Errorf("got %v, want when to ask", err)
			}
			continue
		}
		if err := op.Mean(op.Add(op.Square(d[0]), d[1])).Backward(); err != nil {
			t.Fatal(err)
		}
		if hidden.Grad() == nil {
			t.Error("a gradient that was asked for is missing")
		}
	}
}

// matched reports whether a traced step has the op.
func matched(args []op.Arg, step func(in []*op.Tensor) []*op.Tensor) bool {
	b := ir.NewBuilder("main")
	in := make([]*op.Tensor, len(args))
	for i, a := range args {
		in[i] = b.Param("", a.Type)
	}
	f, err := b.Build(step(in)...)
	if err != nil {
		return false
	}
	for _, n := range f.Nodes() {
		if n.Op().Name() == "mlp_series" {
			return true
		}
	}
	return false
}
