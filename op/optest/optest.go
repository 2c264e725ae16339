// Package optest is the laws of ops, for those of this module and of others alike. A law is told nothing of
// an op but its samples.
//
//	func TestSoftsign(t *testing.T) { optest.Run(t, softsign{}) }
package optest

import (
	"fmt"
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Run checks all laws of each op, as subtests: it is complete and registered, its first and second derivative
// are central differences, its Taylor series are gradients of gradients, it is the same eagerly and compiled,
// with one thread and three, in place and not, in 16-bit floats and f32, by its kernel and by its definition,
// as StableHLO, and on every device of a mesh that splits it by its rule.
func Run(t *testing.T, ops ...op.Op) {
	t.Helper()
	grid := Grid{Meshes: []string{"x=2", "x=3", "x=2,y=2"}, DTypes: []array.DType{array.F64, array.F32},
		Sizes: []int{0, 2}}
	laws := []struct {
		name  string
		check func(t *testing.T, o op.Op, args []op.Arg)
	}{
		{"complete", Complete},
		{"vjp", VJP},
		{"second derivative", SecondDerivative},
		{"taylor", Taylor},
		{"traced", Traced},
		{"threads", Threads},
		{"in place", InPlace},
		{"operand twice", SameOperandTwice},
		{"composite", Composite},
		{"half", Half},
		{"linear", Linear},
		{"sources", func(t *testing.T, o op.Op, args []op.Arg) { Sources(t, o, args) }},
		{"emit", Emit},
		{"rule", func(t *testing.T, o op.Op, args []op.Arg) { Rule(t, o, args, grid) }},
		{"cooperative", func(t *testing.T, o op.Op, args []op.Arg) { Cooperative(t, o, args, grid) }},
	}
	for _, o := range ops {
		if _, ok := op.Lookup(o.Name()); !ok {
			t.Errorf("%s: no program with it can be parsed: register it with op.Register", o.Name())
		}
		if len(o.Samples()) == 0 {
			t.Errorf("%s has no sample", o.Name())
		}
		for _, l := range laws {
			t.Run(o.Name()+"/"+l.name, func(t *testing.T) { Each(t, l.check, o) })
		}
	}
}

// Each runs f for every sample of every op.
func Each(t *testing.T, f func(t *testing.T, o op.Op, args []op.Arg), ops ...op.Op) {
	for _, o := range ops {
		for i, s := range Samples(o) {
			t.Run(fmt.Sprintf("%s/%d", o.Name(), i), func(t *testing.T) { f(t, s.Op, s.In) })
		}
	}
}

// Complete checks that an op takes its sample, that its rule fits it and its work is a number.
func Complete(t *testing.T, o op.Op, args []op.Arg) {
	types := argTypes(args)
	out, err := o.Infer(types)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Rule(types).Bind(shapes(types), shapes(out)); err != nil {
		t.Error(err)
	}
	if w := o.Work(types, out); w.Bytes < 0 || w.Flops < 0 || math.IsNaN(w.Flops+w.Bytes) {
		t.Errorf("work %+v", w)
	}
}
