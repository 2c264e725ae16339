package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

func Example() {
	main()
	// Output:
	// step 0  loss 0.287478
	// step 1  loss 0.269219
	// step 2  loss 0.266274
	// step 3  loss 0.261947
	// step 4  loss 0.245460
	// step 5  loss 0.251377
}

// with runs f with layers on other meshes and another pipeline.
func with(on []*mesh.Mesh, s galley.Strategy, f func()) {
	meshes, before := stages, pipeline
	defer func() { stages, pipeline = meshes, before }()
	stages, pipeline = on, s
	f()
}

// The data passes both meshes twice.
func Example_interleaved() {
	with([]*mesh.Mesh{a, b, a, b}, galley.Strategy{Schedule: "interleaved", VPP: 2, Micro: 4}, main)
	// Output:
	// step 0  loss 0.287478
	// step 1  loss 0.269219
	// step 2  loss 0.266274
	// step 3  loss 0.261947
	// step 4  loss 0.245460
	// step 5  loss 0.251377
}

// TestLines: the program of two meshes has at most ten lines more than that of one device.
func TestLines(t *testing.T) {
	count := func(path string) (n int) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, "//") {
				n++
			}
		}
		return n
	}
	if one, two := count("one/main.go"), count("main.go"); two > one+10 {
		t.Errorf("%d lines for two meshes, %d for one device: want at most ten more", two, one)
	}
}

// static returns the losses and the weights after the steps of a compiled model.
func static(t *testing.T, w *dtensor.World) []float64 {
	t.Helper()
	m := newMLP(w)
	d, err := galley.ToStatic(m, loader{}, galley.MeanSquares, optim.AdamW{}, &pipeline)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	shares(t, d, m)
	var list []float64
	for step := range steps {
		data, _ := loader{}.Batch(step)
		r, err := d.Run(context.Background(), data...)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r.Loss)
	}
	return append(list, numbers(t, m.weights)...)
}

// shares compares what every device holds with its share of the annotated parameters: itself, the sum of its
// gradients, and two slots of AdamW.
func shares(t *testing.T, d *galley.DistModel, m *mlp) {
	t.Helper()
	want := map[int]int{}
	for _, p := range m.weights {
		parts, err := dtensor.ToLocal(p.Value)
		if err != nil {
			t.Fatal(err)
		}
		for id, a := range parts {
			want[id] += len(a.Bytes())
		}
	}
	typ := galley.Type{DType: array.F64, Shape: array.Shape{batch, width}}
	c, err := d.Trainer().Cost(typ, typ)
	if err != nil {
		t.Fatal(err)
	}
	for id, x := range c.Devices {
		if x.Weights != want[id] || x.Slots != 2*want[id] || x.Sums != want[id] {
			t.Errorf("device %d holds %d, %d and %d bytes: want %d, %d and %[5]d", id, x.Weights, x.Slots, x.Sums,
				want[id], 2*want[id])
		}
	}
	if taken := d.Trainer().MemoryAllocated(); taken[0] != c.Devices[0].Memory() {
		t.Errorf("device 0 has taken %d bytes, want %d", taken[0], c.Devices[0].Memory())
	}
}

func numbers(t *testing.T, params []*nn.Param) (list []float64) {
	t.Helper()
	for _, p := range params {
		x, err := galley.Read(p.Value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x.Float64s()...)
	}
	return list
}

// eager returns the same op by op.
func eager(t *testing.T, w *dtensor.World) []float64 {
	t.Helper()
	m := newMLP(w)
	slots := make([][]*galley.Tensor, layers)
	var list []float64
	for step := range steps {
		data, _ := loader{}.Batch(step)
		loss := galley.MeanSquares(m.Forward(w.Tensor(data[0])), []*galley.Tensor{w.Tensor(data[1])})
		grads := galley.Grad(loss, nn.Values(m.weights)...)
		x, err := galley.Read(loss)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x.At(0))
		for i, p := range m.weights {
			v := p.Value.Detach()
			if slots[i] == nil {
				slots[i] = []*galley.Tensor{op.ZerosLike(v), op.ZerosLike(v)}
			}
			at := optim.Step{LR: op.Const(v, 1e-3), Count: op.Const(v, float64(step+1)), Scale: op.Const(v, 1)}
			p.Value, slots[i] = optim.AdamW{}.Update(v, grads[i], slots[i], at)
			p.Value = p.Value.Detach().Track()
		}
	}
	return append(list, numbers(t, m.weights)...)
}

// TestEager: op by op and compiled, in one order of the meshes and in the other, the losses and the last
// weights are the same; every device holds its annotated share.
func TestEager(t *testing.T) {
	w, err := dtensor.NewWorld(galley.CPU(galley.Config{}), 8)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, x := range []struct {
		on []*mesh.Mesh
		s  galley.Strategy
	}{
		{[]*mesh.Mesh{a, a, b, b}, galley.Strategy{Schedule: "1f1b", Micro: 4}},
		{[]*mesh.Mesh{a, b, a, b}, galley.Strategy{Schedule: "interleaved", VPP: 2, Micro: 4}},
	} {
		with(x.on, x.s, func() {
			got, want := static(t, w), eager(t, w)
			for i := range want {
				if !(math.Abs(got[i]-want[i]) <= 1e-10) {
					t.Fatalf("%s: number %d: got %v, want %v", fmt.Sprint(x.s), i, got[i], want[i])
				}
			}
		})
	}
}
