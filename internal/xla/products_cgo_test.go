//go:build cgo && linux

package xla

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestProducts: products with what follows them, in kernels of our own, give what the host gives, on devices
// that these are made for.
func TestProducts(t *testing.T) {
	var text string
	b, err := Open(Config{Dump: func(_, s string) { text = s }})
	if err != nil {
		t.Skipf("no accelerator: %v", err)
	}
	defer b.Close()
	c := b.(*Device).client
	if !c.hopper() {
		t.Skip("kernels of products are not made for this device")
	}
	if c.products() == 0 {
		t.Fatal("the device runs no kernels in PTX")
	}
	host := cpu.NewDevice(cpu.Config{}).Backend()
	defer host.Close()
	for name, c := range map[string]struct {
		batch, seq, depth, width  int
		heads, kvs, size, kernels int
	}{
		"rounds":     {4, 1024, 512, 2048, 8, 8, 128, 3}, // each pair of units takes several tiles
		"groups":     {3, 2816, 256, 512, 8, 4, 64, 3},
		"wide heads": {2, 2816, 768, 768, 1, 1, 256, 3},
		"idle":       {1, 256, 256, 256, 2, 2, 128, 0}, // most units would have nothing to do
		"odd rows":   {4, 1000, 512, 2048, 8, 8, 128, 0},
	} {
		t.Run(name, func(t *testing.T) {
			builder := ir.NewBuilder("block")
			param := func(name string, dims ...int) *op.Tensor {
				return builder.Param(name, ir.Type{DType: array.BF16, Shape: dims})
			}
			x := param("x", c.batch, c.seq, c.depth)
			w := param("w", (c.heads+2*c.kvs)*c.size, c.depth)
			gate, down := param("gate", 2*c.width, c.depth), param("down", c.depth, c.width)
			parts := op.Split(op.MatMulT(x, w, false, true), 2, c.heads*c.size, c.kvs*c.size, c.kvs*c.size)
			turned := func(i, n int) *op.Tensor {
				return op.RoPE(op.Reshape(parts[i], c.batch, c.seq, n, c.size), op.RoPEConfig{})
			}
			halves := op.Chunk(op.MatMulT(x, gate, false, true), -1, 2)
			h := op.SwiGLU(halves[0], halves[1])
			y := op.MatMulT(h, down, false, true)
			grads := op.Grad([]*op.Tensor{op.Sum(op.Mul(y, x))}, nil, []*op.Tensor{gate})
			f, err := builder.Build(turned(0, c.heads), turned(1, c.kvs),
				op.Reshape(parts[2], c.batch, c.seq, c.kvs, c.size), h, y, grads[0])
			if err != nil {
				t.Fatal(err)
			}
			want, got := runOn(t, host, f), runOn(t, b, f)
			if n := strings.Count(text, hlo.PTXTarget); n != c.kernels {
				t.Errorf("%d kernels of products, want %d", n, c.kernels)
			}
			for i := range want {
				near(t, i, got[i], want[i])
			}
		})
	}
}

// runOn returns a program's results for arguments that are the same everywhere.
func runOn(t *testing.T, b backend.Backend, f *ir.Func) []array.Array {
	t.Helper()
	exe, err := b.Compile(f, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	var args []backend.Buffer
	for k, p := range f.Params() {
		a := array.New(p.DType(), p.Shape()...)
		for i := range a.Len() {
			a.Set(i, math.Sin(float64(i*(2*k+3)%10007))/4)
		}
		buffer, err := b.Put(a)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, buffer)
	}
	results, err := exe.Run(args)
	if err != nil {
		t.Fatal(err)
	}
	var out []array.Array
	for _, r := range results {
		a, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

// near wants each number within two steps of bf16 of the largest.
func near(t *testing.T, result int, got, want array.Array) {
	t.Helper()
	largest, worst, at := 0.0, 0.0, 0
	for i := range want.Len() {
		largest = max(largest, math.Abs(want.At(i)))
		if d := math.Abs(got.At(i) - want.At(i)); !(d <= worst) {
			worst, at = d, i
		}
	}
	if t.Logf("result %d: largest difference %.2g of %.2g", result, worst, largest); !(worst <= largest/64) {
		t.Errorf("result %d: element %d is %g, want %g", result, at, got.At(at), want.At(at))
	}
}
