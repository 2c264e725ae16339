package op_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// hostileSizes are what dims and attributes become: the ordinary, the empty and what overflows when it is
// added or multiplied.
var hostileSizes = []int{0, 0, 1, 1, 2, 3, 5, -1, -2, -7, 1 << 31, 1<<32 + 1, 1 << 59, 1<<62 + 1, math.MaxInt,
	math.MaxInt - 1, math.MinInt}

// small is the most elements for which a program that was accepted is also run.
const small = 1 << 12

// TestSizes: whatever sizes and attributes an op is given, it refuses them or computes results of the sizes
// that it said.
func TestSizes(t *testing.T) {
	for _, o := range op.All() {
		t.Run(o.Name(), func(t *testing.T) {
			for seed := range uint64(60) {
				tryHostile(t, o, seed)
			}
		})
	}
}

// FuzzSizes is TestSizes for any seed.
func FuzzSizes(f *testing.F) {
	f.Add(uint16(0), uint64(100))
	f.Fuzz(func(t *testing.T, index uint16, seed uint64) {
		all := op.All()
		tryHostile(t, all[int(index)%len(all)], seed)
	})
}

func tryHostile(t *testing.T, o op.Op, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	samples := o.Samples()
	s := samples[rng.IntN(len(samples))]
	if s.Op == nil {
		s.Op = o
	}
	o = hostileAttributes(s.Op, rng)
	args := hostileDims(s.In, rng)
	what := fmt.Sprintf("seed %d: %s of %v", seed, ir.FormatOp(o), args)
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s: panic: %v", what, r)
		}
	}()
	types, in := make([]op.Type, len(args)), 0
	for i, a := range args {
		types[i] = a.Type
		in = max(in, a.Type.Shape.Len())
	}
	out, err := ir.Infer(o, types)
	if err != nil {
		return
	}
	for _, ty := range out {
		if in = max(in, ty.Shape.Len()); !ty.Shape.Valid() {
			t.Errorf("%s: result %v", what, ty)
		}
	}
	if _, world := o.(op.Collective); world || in > small || o.Work(types, out).Flops > 1e7 {
		return // sizes of the peers' parts, too many numbers or too much work
	}
	runHostile(t, what, o, args)
}

func runHostile(t *testing.T, what string, o op.Op, args []op.Arg) {
	t.Helper()
	s := device(t, 1).NewSession()
	for _, y := range s.Apply(o, at(s, fillAll(args, array.F32, 5))) {
		if y.Err() != nil && !strings.Contains(y.Err().Error(), "index") {
			t.Errorf("%s: %v", what, y.Err())
		}
	}
}

// hostileDims changes some dims of the operands; all stay types that can exist.
func hostileDims(args []op.Arg, rng *rand.Rand) []op.Arg {
	args = slices.Clone(args)
	from := rng.IntN(64)
	to := hostileSizes[rng.IntN(len(hostileSizes))]
	for i := range args {
		shape := args[i].Type.Shape.Clone()
		for d := range shape {
			if rng.IntN(6) == 0 || shape[d] == from { // equal sizes often are one factor
				shape[d] = to
			}
		}
		if rng.IntN(12) == 0 && len(shape) > 0 {
			shape = shape[1:]
		}
		if shape.Valid() {
			args[i].Type.Shape = shape
		}
	}
	return args
}

// hostileAttributes changes some numbers among the fields of the op.
func hostileAttributes(o op.Op, rng *rand.Rand) op.Op {
	v := reflect.New(reflect.TypeOf(o)).Elem()
	v.Set(reflect.ValueOf(o))
	for i := range v.NumField() {
		f := v.Field(i)
		if !f.CanSet() || rng.IntN(3) > 0 {
			continue
		}
		switch {
		case f.Kind() == reflect.Int:
			f.SetInt(int64(hostileSizes[rng.IntN(len(hostileSizes))]))
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Int && f.Len() > 0:
			list := reflect.MakeSlice(f.Type(), f.Len(), f.Len())
			reflect.Copy(list, f)
			list.Index(rng.IntN(f.Len())).SetInt(int64(hostileSizes[rng.IntN(len(hostileSizes))]))
			if rng.IntN(8) == 0 {
				list = list.Slice(0, f.Len()-1)
			}
			f.Set(list)
		}
	}
	return v.Interface().(op.Op)
}
