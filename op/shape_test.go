package op_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

func shapeSession(t *testing.T) *cpu.Session { return device(t, 2).NewSession() }

func ramp(s *cpu.Session, shape ...int) *op.Tensor {
	xs := make([]float32, array.Shape(shape).Len())
	for i := range xs {
		xs[i] = float32(i)
	}
	return s.Tensor(array.FromSlice(xs, shape...))
}

func vector[T array.Elem](s *cpu.Session, xs ...T) *op.Tensor {
	return s.Tensor(array.FromSlice(xs, len(xs)))
}

// wants compares a tensor's printed form.
func wants(t *testing.T, what string, x *op.Tensor, text string) {
	t.Helper()
	if got := fmt.Sprint(read(t, x)); got != text {
		t.Errorf("%s: got %s, want %s", what, got, text)
	}
}

func TestReductionsOfUnusualOperands(t *testing.T) {
	s := shapeSession(t)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	none := s.Tensor(array.New(array.F32, 2, 0))
	ints := vector[int64](s, 3, -5, 7)
	odd := s.Tensor(array.FromSlice([]float32{-inf, -inf, inf, 1, nan, 2}, 3, 2))
	for _, c := range []struct {
		what, want string
		got        *op.Tensor
	}{
		{"mean of none", "f32[2]{NaN NaN}", op.Mean(none, 1)},
		{"amax of none", "f32[2]{-Inf -Inf}", op.AMax(none, 1)},
		{"amin of none", "f32[2]{+Inf +Inf}", op.AMin(none, 1)},
		{"prod of none", "f32[2]{1 1}", op.Prod(none, 1)},
		{"logsumexp of none", "f32[2]{-Inf -Inf}", op.LogSumExp(none, 1)},
		{"sum to none", "f32[0]{}", op.AMax(none, 0)},
		{"amax of ints", "i64[]{7}", op.AMax(ints)},
		{"amin of ints", "i64[]{-5}", op.AMin(ints)},
		{"argmin of ints", "i64[]{1}", op.ArgMin(ints, 0)},
		{"cumsum of ints", "i64[3]{3 -2 5}", op.CumSum(ints, 0)},
		{"cumsum from the end", "i64[3]{5 2 7}", op.CumSumReverse(ints, 0)},
		{"scalar mean", "f32[]{0}", op.Mean(ramp(s))},
		{"scalar var", "f32[]{0}", op.Var(ramp(s))},
		{"scalar logsumexp", "f32[]{0}", op.LogSumExp(ramp(s))},
		{"logsumexp of infinities", "f32[3]{-Inf +Inf NaN}", op.LogSumExp(odd, 1)},
		{"amax of NaN", "f32[3]{-Inf +Inf NaN}", op.AMax(odd, 1)},
		{"argmax of NaN", "i64[3]{0 0 0}", op.ArgMax(odd, 1)},
		{"argmax of ties", "i64[]{1}", op.ArgMax(vector[float32](s, 1, 4, 4), 0)},
		{"any number", "bool[2]{true true}", op.AnyOf(ramp(s, 2, 2), 1)},
		{"all numbers", "bool[2]{false true}", op.AllOf(ramp(s, 2, 2), 1)},
		{"any of none", "bool[2]{false false}", op.AnyOf(none, 1)},
		{"all of none", "bool[2]{true true}", op.AllOf(none, 1)},
		{"kept dims", "f32[1,2]{1 2}", op.KeepDims(op.Mean(ramp(s, 2, 2), 0), ramp(s, 2, 2), 0)},
	} {
		wants(t, c.what, c.got, c.want)
	}
}

func TestLogSumExpGradientOfInfinities(t *testing.T) {
	s := shapeSession(t)
	inf := float32(math.Inf(-1))
	x := s.Tensor(array.FromSlice([]float32{inf, inf, 0, inf}, 2, 2)).Track()
	g := op.Grad([]*op.Tensor{op.LogSumExp(x, 1)}, nil, []*op.Tensor{x})[0]
	wants(t, "gradient", g, "f32[2,2]{0 0 1 0}")
}

func TestProdGradientAtZeros(t *testing.T) {
	s := shapeSession(t)
	x := s.Tensor(array.FromSlice([]float32{2, 0, 5, 0, 0, 3}, 2, 3)).Track()
	g := op.Grad([]*op.Tensor{op.Prod(x, 1)}, nil, []*op.Tensor{x})[0]
	wants(t, "gradient", g, "f32[2,3]{0 10 0 0 0 0}")
}

func TestShapes(t *testing.T) {
	s := shapeSession(t)
	x := ramp(s, 1, 2, 1, 3)
	for _, c := range []struct {
		what, want string
		got        *op.Tensor
	}{
		{"squeeze all", "[2,3]", op.Squeeze(x)},
		{"squeeze some", "[2,1,3]", op.Squeeze(x, 0, 1)},
		{"unsqueeze last", "[1,2,1,3,1]", op.Unsqueeze(x, -1)},
		{"unsqueeze first", "[1,1,2,1,3]", op.Unsqueeze(x, 0)},
		{"flatten", "[1,2,3]", op.Flatten(x, 1, 2)},
		{"flatten all", "[6]", op.Flatten(x, 0, -1)},
		{"flatten scalar", "[1]", op.Flatten(ramp(s), 0, -1)},
		{"tile", "[2,1,2,1,9]", op.Tile(x, 2, 1, 1, 1, 3)},
		{"narrow", "[1,1,1,3]", op.Narrow(x, 1, -1, 2)},
		{"chunk", "[1,2,1,1]", op.Chunk(x, -1, 3)[2]},
		{"stack", "[2,1,2,1,3]", op.Stack([]*op.Tensor{x, x}, 0)},
		{"no elements", "[1,2,1,0]", op.Slice(x, []int{0, 0, 0, 3}, []int{1, 2, 1, 3}, nil)},
	} {
		if c.got.Err() != nil || c.got.Shape().String() != c.want {
			t.Errorf("%s: got %v, want %s", c.what, c.got, c.want)
		}
	}
	wants(t, "roll as one row", op.Roll(ramp(s, 2, 2), []int{1}, nil), "f32[2,2]{3 0 1 2}")
	wants(t, "flip of bytes", op.Flip(op.Cast(ramp(s, 3), array.U8), 0), "u8[3]{2 1 0}")
	wants(t, "pad with true", op.Pad(op.Cast(ramp(s, 1), array.Bool), []int{1}, []int{0}, 1),
		"bool[2]{true false}")
	wants(t, "pad within", op.PadInterior(ramp(s, 2), []int{1}, []int{0}, []int{2}, 9), "f32[5]{9 0 9 9 1}")
}

func TestSortAndTopK(t *testing.T) {
	s := shapeSession(t)
	nan := float32(math.NaN())
	x := vector(s, 2, nan, 1, 2, -1)
	v, i := op.Sort(x, 0)
	wants(t, "sorted", v, "f32[5]{-1 1 2 2 NaN}")
	wants(t, "places", i, "i64[5]{4 2 0 3 1}")
	v, i = op.SortDescending(x, 0)
	wants(t, "sorted down", v, "f32[5]{NaN 2 2 1 -1}")
	wants(t, "places down", i, "i64[5]{1 0 3 2 4}")
	v, i = op.TopK(x, 3, 0)
	wants(t, "top", v, "f32[3]{NaN 2 2}")
	wants(t, "top places", i, "i64[3]{1 0 3}")
	v, i = op.TopK(op.Flip(ramp(s, 100), 0), 2, 0)
	wants(t, "top of many", v, "f32[2]{99 98}")
	wants(t, "top places of many", i, "i64[2]{0 1}")
	v, _ = op.TopK(x, 0, 0)
	wants(t, "top none", v, "f32[0]{}")
	v, _ = op.Sort(vector[uint8](s, 3, 1, 2), 0)
	wants(t, "bytes", v, "u8[3]{1 2 3}")
}

func TestDynamicSliceStaysInside(t *testing.T) {
	s := shapeSession(t)
	x := ramp(s, 5)
	for start, want := range map[int64]string{-3: "f32[2]{0 1}", 2: "f32[2]{2 3}", 9: "f32[2]{3 4}"} {
		at := s.Tensor(array.Scalar(start))
		wants(t, fmt.Sprint("slice at ", start), op.DynamicSlice(x, at, []int{-1}, []int{2}), want)
	}
	y := op.DynamicUpdateSlice(x, vector[float32](s, 8, 9), vector[int32](s, 4), 0)
	wants(t, "update", y, "f32[5]{0 1 2 8 9}")
	wants(t, "operand", x, "f32[5]{0 1 2 3 4}")
}

// TestIndexError: an index out of range never reads or writes, it panics with a value that backends know.
func TestIndexError(t *testing.T) {
	x, row := array.FromSlice([]float32{1, 2, 3}, 3), array.FromSlice([]float32{1}, 1)
	for _, bad := range []int32{-1, 3} {
		index := array.FromSlice([]int32{bad}, 1)
		for name, in := range map[string][]array.Array{
			"embedding": {index, x}, "index_select": {x, index}, "take_along_dim": {x, index},
			"index_add": {x, index, row}, "scatter_add": {x, index, row},
		} {
			func() {
				defer func() {
					var e *op.IndexError
					err, _ := recover().(error)
					if !errors.As(err, &e) || *e != (op.IndexError{Op: name, Index: int(bad), Limit: 3}) {
						t.Errorf("%s of %d: got %v", name, bad, err)
					}
				}()
				o, _ := op.Lookup(name)
				out, err := o.Infer(typesOf(in))
				if err != nil {
					t.Fatal(err)
				}
				op.Run(&op.Env{}, o.(op.Op), in, []array.Array{array.New(out[0].DType, out[0].Shape...)})
			}()
		}
	}
}

func typesOf(as []array.Array) []op.Type {
	ts := make([]op.Type, len(as))
	for i, a := range as {
		ts[i] = ir.TypeOf(a)
	}
	return ts
}

func TestShapeMistakes(t *testing.T) {
	s := shapeSession(t)
	x, id := ramp(s, 2, 3), vector[int32](s, 0, 1)
	image, kernel := ramp(s, 1, 4, 5, 5), ramp(s, 4, 4, 3, 3)
	for want, got := range map[string]*op.Tensor{
		"mean: dims [2] do not fit":                   op.Mean(x, 2),
		"amax: dims [1 1] do not fit":                 op.AMax(x, 1, -1),
		"argmax: dim 2 does not fit":                  op.ArgMax(x, 2),
		"argmax: dim 0 of f32[0] has no elements":     op.ArgMax(ramp(s, 0), 0),
		"cumsum: dim -1 does not fit":                 op.CumSum(x, -3),
		"slice: cannot take 1:5:1 of dim 1":           op.Narrow(x, 1, 1, 5),
		"slice: start [0], end [1] and step [1 1]":    op.Slice(x, []int{0}, []int{1}, nil),
		"concat: cannot join f32[2,3] and f32[2]":     op.Concat([]*op.Tensor{x, ramp(s, 2)}, 0),
		"concat: no operands":                         op.Concat(nil, 0),
		"split: cannot cut dim 1":                     op.Split(x, 1, 1, 1)[1],
		"tile: repetitions [1 -1] do not fit":         op.Tile(x, -1),
		"pad: padding [1] before":                     op.Pad(x, []int{1}, []int{1}, 0),
		"pad: padding of dim 0":                       op.Pad(x, []int{-1, 0}, []int{0, 0}, 0),
		"flip: dims [2] do not fit":                   op.Flip(x, 2),
		"roll: shifts [1 2] along dims [0]":           op.Roll(x, []int{1, 2}, []int{0}),
		"unsqueeze: dims [4] do not fit":              op.Unsqueeze(x, 4),
		"flatten: dims [1 0] do not fit":              op.Flatten(x, 1, 0),
		"embedding: want indices of i32 or i64":       op.Embedding(x, x),
		"take_along_dim: cannot take":                 op.TakeAlongDim(x, id, 0),
		"index_select: want a tensor and a vector":    op.IndexSelect(x, 0, x),
		"index_add: cannot add":                       op.IndexAdd(x, 0, id, ramp(s, 3, 3)),
		"scatter_add: cannot add":                     op.ScatterAdd(x, 0, id, ramp(s, 2)),
		"dynamic_slice: start i32[2]: want one index": op.DynamicSlice(x, id, []int{0}, []int{1}),
		"dynamic_update_slice: cannot put":            op.DynamicUpdateSlice(x, ramp(s, 3, 3), id, 0, 1),
		"conv: kernel f32[4,4,3,3]: want 2 input":     op.Conv2D(image, kernel, nil, op.ConvConfig{Groups: 2}),
		"conv: want batch, channels and 1 more":       op.Conv1D(image, kernel, nil, op.ConvConfig{}),
		"conv: stride [0 0]": op.Conv2D(image, kernel, nil,
			op.ConvConfig{Stride: []int{0}}),
		"does not fit the input": op.Conv2D(image, kernel, nil,
			op.ConvConfig{Dilation: []int{3}}),
		"max_pool: kernel [0 0]":              op.MaxPool2D(image, op.PoolConfig{}),
		"avg_pool: kernel [9 9] does not fit": op.AvgPool2D(image, op.PoolConfig{Kernel: []int{9}}),
	} {
		if got.Err() == nil || !strings.Contains(got.Err().Error(), want) {
			t.Errorf("got %v, want %q", got.Err(), want)
		}
	}
}

// TestShapeOpsCarryMistakesOn: no function panics on what an earlier mistake left.
func TestShapeOpsCarryMistakesOn(t *testing.T) {
	s := shapeSession(t)
	bad := ir.Invalid(s, errors.New("earlier"))
	v, i := op.TopK(bad, 2, -1)
	w, j := op.Sort(bad, -1)
	all := []*op.Tensor{
		v, i, w, j, op.Mean(bad, -1), op.AMax(bad), op.AMin(bad, 1), op.Prod(bad, 1), op.LogSumExp(bad,
			-1), op.Var(bad), op.SampleVar(bad, 1),
		op.ArgMax(bad, -1), op.ArgMin(bad, 0), op.AnyOf(bad), op.AllOf(bad), op.CumSum(bad, -1), op.KeepDims(bad,
			bad, 1),
		op.Slice(bad, []int{1}, []int{2}, nil), op.Narrow(bad, -1, 0, 1), op.Concat([]*op.Tensor{bad, bad},
			-1), op.Stack([]*op.Tensor{bad}, -1),
		op.Split(bad, -1, 1, 1)[1], op.Chunk(bad, 0, 2)[1], op.Tile(bad, 2), op.Pad(bad, []int{1}, []int{1},
			0), op.Flip(bad, -1),
		op.Roll(bad, []int{1}, []int{-1}), op.Squeeze(bad, 0), op.Unsqueeze(bad, -1), op.Flatten(bad, 0, -1),
		op.Embedding(bad, bad), op.TakeAlongDim(bad, bad, -1), op.IndexSelect(bad, -1, bad), op.IndexAdd(bad, -1,
			bad, bad), op.ScatterAdd(bad, -1, bad, bad),
		op.DynamicSlice(bad, bad, []int{-1}, []int{1}), op.DynamicUpdateSlice(bad, bad, bad, -1),
		op.Conv1D(bad, bad, bad, op.ConvConfig{}), op.Conv2D(bad, bad, nil, op.ConvConfig{}),
		op.MaxPool2D(bad, op.PoolConfig{Kernel: []int{2}}), op.AvgPool2D(bad, op.PoolConfig{Kernel: []int{2}}),
		op.Add(op.Concat(nil, 0), op.Concat(nil, 0)),
	}
	for n, x := range all {
		if x.Err() == nil {
			t.Errorf("result %d is valid: %v", n, x)
		}
	}
}

// TestConvBands: an image too large for one band gives what the definition says, and the gradients are its
// transposes.
func TestConvBands(t *testing.T) {
	s := shapeSession(t)
	in := fillAll([]op.Arg{normal(2, 16, 70, 64), normal(4, 16, 3, 3)}, array.F64, 41)
	x, w := s.Tensor(in[0]).Track(), s.Tensor(in[1]).Track()
	y := op.Conv2D(x, w, nil, op.ConvConfig{Padding: []int{1}, Stride: []int{1}})
	for _, rows := range [][2]int{{0, 9}, {20, 40}, {50, 70}} { // a slice of the image is one band
		z := op.Conv2D(op.Narrow(x, 2, rows[0], rows[1]), w, nil, op.ConvConfig{Padding: []int{1}})
		n := rows[1] - rows[0]
		if e := distance(read(t, op.Narrow(y, 2, rows[0]+1, rows[1]-1)),
			read(t, op.Narrow(z, 2, 1, n-1))); e > 1e-13 {
			t.Errorf("rows %v: relative error %g", rows, e)
		}
	}
	dy := fillAll([]op.Arg{normal(y.Shape()...)}, array.F64, 43)
	grads := op.Grad([]*op.Tensor{y}, []*op.Tensor{s.Tensor(dy[0])}, []*op.Tensor{x, w})
	value := dots([]array.Array{read(t, y)}, dy)
	for i, g := range grads {
		near(t, dots([]array.Array{read(t, g)}, in[i:i+1]), value, 1e-12)
	}
}

// TestConvDefinition compares with the sum that a convolution is.
func TestConvDefinition(t *testing.T) {
	s := shapeSession(t)
	for _, c := range []struct {
		x, w                []int
		stride, pad, dilate [2]int
		groups              int
	}{
		{[]int{3, 4, 9, 11}, []int{8, 4, 3, 2}, [2]int{1, 1}, [2]int{0, 0}, [2]int{1, 1}, 1},
		{[]int{1, 4, 9, 11}, []int{8, 2, 1, 4}, [2]int{3, 2}, [2]int{1, 3}, [2]int{2, 2}, 2},
		{[]int{9, 4, 5, 6}, []int{4, 1, 3, 3}, [2]int{1, 3}, [2]int{2, 1}, [2]int{2, 1}, 4},
		{[]int{2, 4, 5, 6}, []int{3, 4, 1, 1}, [2]int{1, 1}, [2]int{0, 0}, [2]int{1, 1}, 1},
		{[]int{2, 1, 1, 2}, []int{1, 1, 1, 9}, [2]int{1, 1}, [2]int{0, 6}, [2]int{1, 1}, 1},
		{[]int{0, 4, 5, 6}, []int{3, 4, 2, 2}, [2]int{1, 1}, [2]int{0, 0}, [2]int{1, 1}, 1},
	} {
		in := fillAll([]op.Arg{normal(c.x...), normal(c.w...)}, array.F64, 47)
		config := op.ConvConfig{Stride: c.stride[:], Padding: c.pad[:], Dilation: c.dilate[:], Groups: c.groups}
		got := read(t, op.Conv2D(s.Tensor(in[0]), s.Tensor(in[1]), nil, config))
		x, w := array.Data[float64](in[0]), array.Data[float64](in[1])
		want := array.New(array.F64, got.Shape()...)
		shape := got.Shape()
		for i := range want.Len() {
			ox, oy := i%shape[3], i/shape[3]%shape[2]
			o, n := i/shape[3]/shape[2]%shape[1], i/shape[3]/shape[2]/shape[1]
			for tap := range c.w[1] * c.w[2] * c.w[3] {
				ch := tap/c.w[3]/c.w[2] + o/(c.w[0]/c.groups)*c.w[1]
				iy := oy*c.stride[0] - c.pad[0] + tap/c.w[3]%c.w[2]*c.dilate[0]
				ix := ox*c.stride[1] - c.pad[1] + tap%c.w[3]*c.dilate[1]
				if iy >= 0 && iy < c.x[2] && ix >= 0 && ix < c.x[3] {
					array.Data[float64](want)[i] += x[((n*c.x[1]+ch)*c.x[2]+iy)*c.x[3]+ix] * w[o*c.w[1]*c.w[2]*c.w[3]+tap]
				}
			}
		}
		if e := distance(got, want); e > 1e-13 {
			t.Errorf("%+v: relative error %g", c, e)
		}
	}
}

func normal(shape ...int) op.Arg {
	return op.Arg{Type: op.Type{DType: array.F32, Shape: slices.Clone(shape)}}
}
