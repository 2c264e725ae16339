package plan

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestProgram says that a large product takes its operations at nearly the measured rate, and that views are free.
func TestProgram(t *testing.T) {
	b := ir.NewBuilder("p")
	x := b.Param("x", ir.Type{DType: array.BF16, Shape: array.Shape{8192, 8192}})
	w := b.Param("w", ir.Type{DType: array.BF16, Shape: array.Shape{8192, 8192}})
	f, err := b.Build(op.Reshape(op.MatMul(x, w), 64, 128, 8192))
	if err != nil {
		t.Fatal(err)
	}
	c := mustCluster(t, "8 A100")
	got, err := Program(f, &c.Groups[0], Calibration{}, "bf16")
	if err != nil {
		t.Fatal(err)
	}
	rate := got.Flops / got.Seconds()
	if got.Flops != 2*8192*8192*8192 || rate < 0.9*271e12 || rate > 271.2e12 {
		t.Errorf("%g operations at %.0f T/s, want 2·8192³ at a little below 271", got.Flops, rate/1e12)
	}
	if _, err := Program(f, &c.Groups[0], Calibration{}, "int3"); err == nil {
		t.Error("want an unknown precision refused")
	}
}
