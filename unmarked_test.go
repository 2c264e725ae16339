package galley_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// unmarked is a model of your own that says nothing of layers.
type unmarked struct {
	params  []*nn.Param
	forward func(x *galley.Tensor) *galley.Tensor
	in, out array.Shape
}

func (m *unmarked) Params() []*nn.Param { return m.params }

func (m *unmarked) Forward(in ...*galley.Tensor) []*galley.Tensor {
	return []*galley.Tensor{m.forward(in[0])}
}

func (m *unmarked) batch(step int) []array.Array {
	x, y := array.New(array.F64, m.in...), array.New(array.F64, m.out...)
	for i := range x.Len() {
		x.Set(i, math.Sin(float64(3*i+step)))
	}
	for i := range y.Len() {
		y.Set(i, math.Cos(float64(5*i-step)))
	}
	return []array.Array{x, y}
}

// unmarkedModels is a multi-layer perceptron, a network of convolutions, one whose first weights are its last
// ones, too, and two towers.
var unmarkedModels = map[string]func(in *nn.Init) *unmarked{
	"mlp": func(in *nn.Init) *unmarked {
		var ws []*nn.Param
		for i, w := range []array.Shape{{6, 16}, {16, 24}, {24, 8}, {8, 12}, {12, 3}} {
			ws = append(ws, in.Param(fmt.Sprint("w", i), w, nn.Normal(0.4)))
		}
		return &unmarked{params: ws, in: array.Shape{8, 6}, out: array.Shape{8, 3},
			forward: func(x *galley.Tensor) *galley.Tensor {
				for _, w := range ws {
					x = op.Tanh(op.MatMul(x, w.Value))
				}
				return x
			}}
	},
	"cnn": func(in *nn.Init) *unmarked {
		var ws []*nn.Param
		for i, w := range []array.Shape{{4, 2, 3, 3}, {4, 4, 3, 3}, {6, 4, 3, 3}, {6, 6, 3, 3}} {
			ws = append(ws, in.Param(fmt.Sprint("conv", i), w, nn.Normal(0.3)))
		}
		head := in.Param("head", array.Shape{6 * 36, 3}, nn.Normal(0.1))
		return &unmarked{params: append(ws, head), in: array.Shape{8, 2, 6, 6}, out: array.Shape{8, 3},
			forward: func(x *galley.Tensor) *galley.Tensor {
				for _, w := range ws {
					x = op.ReLU(op.Conv2D(x, w.Value, nil, op.ConvConfig{Padding: []int{1, 1}}))
				}
				return op.MatMul(op.Reshape(x, x.Dim(0), -1), head.Value)
			}}
	},
	"tied": func(in *nn.Init) *unmarked {
		up, mid := in.Param("up", array.Shape{6, 10}, nn.Normal(0.4)),
			in.Param("mid", array.Shape{10, 10}, nn.Normal(0.4))
		return &unmarked{params: []*nn.Param{up, mid}, in: array.Shape{8, 6}, out: array.Shape{8, 6},
			forward: func(x *galley.Tensor) *galley.Tensor {
				x = op.Tanh(op.MatMul(x, up.Value))
				x = op.Tanh(op.MatMul(op.Tanh(op.MatMul(x, mid.Value)), mid.Value))
				return op.MatMul(x, op.Transpose(up.Value, 1, 0))
			}}
	},
	"towers": func(in *nn.Init) *unmarked {
		l, r := in.Param("left", array.Shape{6, 9}, nn.Normal(0.4)),
			in.Param("right", array.Shape{6, 9}, nn.Normal(0.4))
		top := in.Param("top", array.Shape{9, 4}, nn.Normal(0.4))
		return &unmarked{params: []*nn.Param{l, r, top}, in: array.Shape{8, 6}, out: array.Shape{8, 4},
			forward: func(x *galley.Tensor) *galley.Tensor {
				a, b := op.Tanh(op.MatMul(x, l.Value)), op.ReLU(op.MatMul(x, r.Value))
				return op.MatMul(op.Tanh(op.Mul(a, b)), top.Value)
			}}
	},
}

// trainUnmarked returns the losses of a few steps and what the model then answers.
func trainUnmarked(t *testing.T, build func(in *nn.Init) *unmarked, s *galley.Strategy) []float64 {
	t.Helper()
	m := build(nn.NewInit(nn.Config{Scope: device(t).NewSession(), DType: array.F64, Seed: 9}))
	d, err := galley.ToStatic(m, fixed{m.batch(0)}, squares, optim.AdamW{}, s)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var list []float64
	for i := range 3 {
		r, err := d.Run(t.Context(), m.batch(i)...)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r.Loss)
	}
	if err := d.Eval(); err != nil {
		t.Fatal(err)
	}
	r, err := d.Run(t.Context(), m.batch(5)...)
	if err != nil {
		t.Fatal(err)
	}
	d.Predict()
	p, err := d.Run(t.Context(), m.batch(6)[0])
	if err != nil {
		t.Fatal(err)
	}
	return append(append(list, r.Loss), p.Outputs[0].Float64s()...)
}

// TestStagesWithoutMarks: a model of your own that says nothing of layers is cut by itself, for every
// schedule, and trains, evaluates and predicts as on one device; weights of several stages stay equal.
func TestStagesWithoutMarks(t *testing.T) {
	for name, build := range unmarkedModels {
		want := trainUnmarked(t, build, nil)
		for _, s := range []galley.Strategy{{PP: 2}, {PP: 2, Micro: 4}, {PP: 3, Micro: 2},
			{DP: 2, PP: 2, Micro: 2, Zero: 3},
			{PP: 2, VPP: 2, Micro: 4}, {PP: 2, Schedule: "zbv", Micro: 4}, {PP: 2, Schedule: "dualpipev", Micro: 4},
			{PP: 2, Schedule: "zbh1", Micro: 4}, {PP: 2, Schedule: "fthenb", Micro: 2}} {
			t.Run(name+" "+fmt.Sprint(s), func(t *testing.T) {
				if err := within(trainUnmarked(t, build, &s), want, 1e-10); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestStagesTooMany: a program that cannot be cut so often says how often it can.
func TestStagesTooMany(t *testing.T) {
	m := unmarkedModels["towers"](nn.NewInit(nn.Config{Scope: device(t).NewSession(), DType: array.F64,
		Seed: 9}))
	_, err := galley.ToStatic(m, fixed{m.batch(0)}, squares, optim.AdamW{}, &galley.Strategy{PP: 32, Micro: 1})
	if err == nil || !strings.Contains(err.Error(), "want fewer stages") {
		t.Errorf("got %v, want an error about stages", err)
	}
}
