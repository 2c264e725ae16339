package cpu_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestSizesThatOverflow: eagerly and traced, a value whose size cannot be counted or held is an error with a
// place.
func TestSizesThatOverflow(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	s := d.NewSession()
	row, column := s.Tensor(array.New(array.F32, 1<<40, 0)), s.Tensor(array.New(array.F32, 0, 1<<40))
	for want, x := range map[string]*op.Tensor{
		"matmul: result 0 of f32[1099511627776,0], f32[0,1099511627776] is": op.MatMul(row, column),
		"tensor: invalid[]: no such dtype":                                  s.Tensor(array.Array{}),
		"expand: result 0 is f32[35184372088832,1]: got": op.Expand(s.Tensor(array.New(array.F32,
			1)), 1<<45, 1),
		"full: result 0 is f64[35184372088832]: got": op.Full(s, array.F64,
			array.Shape{1 << 45}, 1),
	} {
		if err := x.Err(); err == nil || !strings.HasPrefix(err.Error(), "size_test.go:") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want the place and %q", err, want)
		}
	}
	b := ir.NewBuilder("main")
	b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{1<<62 + 1, 4}})
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), `parameter "x"`) {
		t.Errorf("a parameter whose size overflows: got %v", err)
	}
}

// TestArenaThatOverflows: values that fit one by one but not together are refused before memory is taken.
func TestArenaThatOverflows(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	b := ir.NewBuilder("main")
	x := b.Param("x", ir.Type{DType: array.F64, Shape: array.Shape{1}})
	wide := op.Expand(x, 1<<43)
	y := op.Exp(wide)
	f, err := b.Build(op.Sum(op.Mul(op.Sin(y), op.Cos(y))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Compile(f, cpu.Options{}); err == nil ||
		!strings.Contains(err.Error(), "compile main: values that live at once") {
		t.Errorf("got %v", err)
	}
}
