package op_test

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/op/optest"
)

// The laws of package optest hold for every op in the list.

// law runs f for every sample of every op.
func law(t *testing.T, f func(t *testing.T, o op.Op, args []op.Arg)) { optest.Each(t, f, op.All()...) }

// What tests of single ops use as the laws do.
var (
	fill      = optest.Operand
	fillAll   = optest.Fill
	castTo    = optest.Cast
	device    = optest.Device
	evaluate  = optest.Evaluate
	at        = optest.Tensors
	read      = optest.Read
	same      = optest.Same
	near      = optest.Near
	tolerance = optest.Tolerance
	distance  = optest.Distance
)

func TestEveryOpIsComplete(t *testing.T) {
	names := map[string]bool{}
	for _, o := range op.All() {
		if names[o.Name()] {
			t.Errorf("two ops are called %q", o.Name())
		}
		names[o.Name()] = true
		if len(o.Samples()) == 0 {
			t.Errorf("%s has no sample", o.Name())
		}
	}
	law(t, optest.Complete)
}

func TestVJP(t *testing.T)              { law(t, optest.VJP) }
func TestSecondDerivative(t *testing.T) { law(t, optest.SecondDerivative) }
func TestTaylor(t *testing.T)           { law(t, optest.Taylor) }
func TestTraced(t *testing.T)           { law(t, optest.Traced) }
func TestThreads(t *testing.T)          { law(t, optest.Threads) }
func TestInPlace(t *testing.T)          { law(t, optest.InPlace) }
func TestSameOperandTwice(t *testing.T) { law(t, optest.SameOperandTwice) }
func TestComposite(t *testing.T)        { law(t, optest.Composite) }
func TestHalf(t *testing.T)             { law(t, optest.Half) }
func TestEveryLinearOpIs(t *testing.T)  { law(t, optest.Linear) }

func TestEverySourcedOpIs(t *testing.T) {
	checked := 0
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		if optest.Sources(t, o, args) {
			checked++
		}
	})
	if checked == 0 {
		t.Error("no op says what its results are computed from")
	}
}

// TestEmit: what every op writes as StableHLO, run, is what its kernel computes.
func TestEmit(t *testing.T) {
	for _, dtype := range []array.DType{array.F64, array.F32, array.BF16} {
		t.Run(dtype.String(), func(t *testing.T) {
			law(t, func(t *testing.T, o op.Op, args []op.Arg) {
				optest.CheckEmit(t, o, fillAll(args, dtype, 5), hlo.Config{})
			})
		})
	}
}

func dots(xs, ys []array.Array) float64 {
	s := 0.0
	for i := range xs {
		for j := range xs[i].Len() {
			s += xs[i].At(j) * ys[i].At(j)
		}
	}
	return s
}
