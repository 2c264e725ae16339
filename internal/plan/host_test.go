package plan

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

func testHost() *Host {
	h := &Host{Cores: 2, Crowd: 1.1, Start: 1e-6, Rate: 1e11, Stream: 1e10, Meet: 2e-6, Message: 3e-6,
		Touch: 2e10}
	for _, m := range []int{16, 256} {
		for _, n := range []int{16, 256} {
			for _, k := range []int{16, 256} {
				h.Products = append(h.Products, HostProduct{M: m, N: n, K: k, Rate: 1e8 * float64(m+n+k)})
			}
		}
	}
	h.Ops = []HostOp{
		{Op: "matmul", One: HostTimes{Factors: []HostFactor{{M: 256, N: 256, K: 16, Factor: 2}}}},
		{Op: "exp", One: HostTimes{Points: []HostPoint{{Flops: 1e3, Bytes: 8e3, Seconds: 1e-5}, {Flops: 1e6,
			Bytes: 8e6, Seconds: 2e-3}}}},
	}
	return h
}

// TestHostNode says that measured sizes are met and that what is between is between.
func TestHostNode(t *testing.T) {
	h := testHost()
	b := ir.NewBuilder("p")
	x := b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{256, 16}})
	y := b.Param("y", ir.Type{DType: array.F32, Shape: array.Shape{16, 256}})
	f, err := b.Build(op.MatMul(x, y), op.Neg(x), op.Reshape(y, 4096))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{2*2*256*16*256/(1e8*(256+16+256)) + 1e-6, 1e-6 + 2*4*4096/1e10, 0} {
		if got := h.Node(f.Nodes()[i], 1); math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s: got %g s, want %g", f.Nodes()[i].Op().Name(), got, want)
		}
	}
	points := h.Ops[1].One.Points
	last := 0.0
	for n := 500.0; n < 1e7; n *= 1.7 {
		got := amid(points, op.Work{Flops: n, Bytes: 8 * n})
		if got <= last {
			t.Errorf("%g operations: got %g s, want more than the %g of fewer", n, got, last)
		}
		last = got
	}
	if got := h.Product(Sides{64, 64, 64}); !(got > 2*64*64*64/(1e8*768) && got < 2*64*64*64/(1e8*48)) {
		t.Errorf("a product between measured ones: got %g s, want a rate between theirs", got)
	}
}

// TestHostFile says that a host reads back from its file, and that numbers which mean nothing are refused.
func TestHostFile(t *testing.T) {
	c := Calibration{Level: 1, Host: testHost()}
	back, err := ParseCalibration(c.YAML())
	if err != nil {
		t.Fatal(err)
	}
	if string(back.YAML()) != string(c.YAML()) || back.Host.Cores != 2 {
		t.Errorf("got\n%swant\n%s", back.YAML(), c.YAML())
	}
	for name, spoil := range map[string]func(h *Host){
		"cores": func(h *Host) { h.Cores = 0 }, "rate": func(h *Host) { h.Touch = 0 },
		"seconds": func(h *Host) { h.Meet = -1 },
		"product": func(h *Host) { h.Products[0].K = 0 },
		"point":   func(h *Host) { h.Ops[1].One.Points[0].Seconds = math.NaN() },
		"factor":  func(h *Host) { h.Ops[0].One.Factors[0].Factor = -1 },
	} {
		h := testHost()
		spoil(h)
		if err := h.check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}
