package galley_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// annotated is two products whose weights and activations say where they are, where there is a mesh.
type annotated struct {
	up, down *nn.Param
	lay      func(x *galley.Tensor, dim int) *galley.Tensor
}

func newAnnotated(t *testing.T, s op.Scope, text string) *annotated {
	t.Helper()
	in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 3})
	m := &annotated{lay: func(x *galley.Tensor, _ int) *galley.Tensor { return x }}
	m.up = in.Param("up", array.Shape{4, 8}, nn.Normal(0.3))
	m.down = in.Param("down", array.Shape{8, 2}, nn.Normal(0.3))
	if text != "" {
		at := parseMesh(t, text)
		m.lay = func(x *galley.Tensor, dim int) *galley.Tensor {
			return dtensor.Shard(x, at, mesh.Shard(dim))
		}
	}
	return m
}

func (m *annotated) Params() []*nn.Param { return []*nn.Param{m.up, m.down} }

func (m *annotated) Forward(in ...*galley.Tensor) []*galley.Tensor {
	h := m.lay(op.Tanh(op.MatMul(in[0], m.lay(m.up.Value, 1))), 1)
	return []*galley.Tensor{op.MatMul(h, m.lay(m.down.Value, 0))}
}

func squares(out, labels []*galley.Tensor) *galley.Tensor {
	return op.MSELoss(out[0], labels[0], "mean")
}

type fixed struct{ batch []array.Array }

func (f fixed) Len() int { return 1 }

func (f fixed) Batch(int) ([]array.Array, error) { return f.batch, nil }

func annotatedBatch() fixed {
	x, y := array.New(array.F64, 4, 4), array.New(array.F64, 4, 2)
	for i := range x.Len() {
		x.Set(i, float64(i%5)-2)
	}
	for i := range y.Len() {
		y.Set(i, float64(i%3)-1)
	}
	return fixed{[]array.Array{x, y}}
}

func trainAnnotated(t *testing.T, text string, s *galley.Strategy) (losses []float64, err error) {
	t.Helper()
	return trainModel(t, newAnnotated(t, device(t).NewSession(), text), s)
}

func trainModel(t *testing.T, m *annotated, s *galley.Strategy) (losses []float64, err error) {
	t.Helper()
	d, err := galley.ToStatic(m, annotatedBatch(), squares, adamW(), s)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for range 3 {
		r, err := d.Run(t.Context(), annotatedBatch().batch...)
		if err != nil {
			return nil, err
		}
		losses = append(losses, r.Loss)
	}
	d.Predict()
	r, err := d.Run(t.Context(), annotatedBatch().batch[0])
	if err != nil {
		return nil, err
	}
	return append(losses, r.Outputs[0].Float64s()...), nil
}

// TestAnnotatedModels: what a model asks of its own tensors is honoured on the devices of a strategy, and
// refused with its line where there are no such devices.
func TestAnnotatedModels(t *testing.T) {
	want, err := trainAnnotated(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mesh string
		s    *galley.Strategy
		want string
	}{
		{"x=2", nil, ""},
		{"x=2@[4,5]", nil, ""},
		{"x=2@[4,5]", &galley.Strategy{DP: 2}, "annotated_test.go:"},
		{"x=4", &galley.Strategy{DP: 2}, "annotated_test.go:"},
		{"x=1", nil, ""},
		{"dp=2", &galley.Strategy{DP: 2}, ""},
		{"tp=2", &galley.Strategy{TP: 2}, ""},
		{"x=2", &galley.Strategy{DP: 2}, ""},
		{"x=2@[1,0]", &galley.Strategy{DP: 2}, ""},
		{"x=2@[1,0]", &galley.Strategy{DP: 4}, "annotated_test.go:"},
	} {
		t.Run(fmt.Sprint(c.mesh, c.s), func(t *testing.T) {
			losses, err := trainAnnotated(t, c.mesh, c.s)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want == "":
				near(t, "losses", losses, want)
			case err == nil || !strings.Contains(err.Error(), c.want):
				t.Errorf("got %v, want an error with %s", err, c.want)
			}
		})
	}
}

// TestAnnotatedParametersRestSo: a parameter that the model lays on the strategy's own mesh rests there as it
// asks, with its gradients and the optimizer's memory: each device has its share, and nothing is moved to get
// there.
func TestAnnotatedParametersRestSo(t *testing.T) {
	cost := func(text string, s galley.Strategy) galley.DeviceCost {
		m := newAnnotated(t, device(t).NewSession(), text)
		d, err := galley.ToStatic(m, annotatedBatch(), squares, adamW(), &s)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		f64 := func(a array.Array) galley.Type { return galley.Type{DType: array.F64, Shape: a.Shape()} }
		batch := annotatedBatch().batch
		c, err := d.Trainer().Cost(f64(batch[0]), f64(batch[1]))
		if err != nil {
			t.Fatal(err)
		}
		return c.Devices[0]
	}
	whole, own := cost("", galley.Strategy{DP: 1}), cost("tp=2", galley.Strategy{TP: 2})
	if 2*own.Weights != whole.Weights || 2*own.Slots != whole.Slots || own.Collectives > 3 {
		t.Errorf("a device holds %d and %d bytes with %d collectives, want half of %d and %d, and at most 3",
			own.Weights, own.Slots, own.Collectives, whole.Weights, whole.Slots)
	}
}

// TestParametersOnMeshes: parameters that are on a mesh already, all of them or one, train there.
func TestParametersOnMeshes(t *testing.T) {
	want, err := trainAnnotated(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := world(t, 2)
	for _, s := range []*galley.Strategy{nil, {DP: 2}} {
		all, one := newAnnotated(t, w, ""), newAnnotated(t, device(t).NewSession(), "")
		for _, p := range all.Params() {
			p.Value = dtensor.Shard(p.Value, parseMesh(t, "x=2"), mesh.Shard(0)).Detach().Track()
		}
		one.down.Value = dtensor.Shard(newAnnotated(t, w, "").down.Value, parseMesh(t, "x=2"),
			mesh.Shard(0)).Detach().Track()
		for name, m := range map[string]*annotated{"all": all, "one": one} {
			got, err := trainModel(t, m, s)
			if err != nil {
				t.Fatalf("%s %v: %v", name, s, err)
			}
			near(t, name, got, want)
			if _, spec, ok := dtensor.Placements(m.down.Value); !ok || spec.IsWhole() {
				t.Errorf("%s %v: the trained parameter lies as %v, want it where it was", name, s, spec)
			}
		}
	}
}
