package op_test

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// numbers returns an array of the given elements.
func numbers(shape array.Shape, dtype array.DType, xs ...float64) array.Array {
	a := array.New(array.F64, shape...)
	copy(array.Data[float64](a), xs)
	return castTo(a, dtype)
}

// counting returns 1, 2, 3, ….
func counting(shape ...int) array.Array {
	a := array.New(array.F64, shape...)
	for i := range array.Data[float64](a) {
		array.Data[float64](a)[i] = float64(i + 1)
	}
	return a
}

// TestGatherScatterND: an index of several numbers is a place in as many dims.
func TestGatherScatterND(t *testing.T) {
	s := device(t, 1).NewSession()
	x := s.Tensor(counting(2, 3, 2))
	index := s.Tensor(numbers(array.Shape{3, 2}, array.I64, 1, 2, 0, 0, 1, 2))
	got := op.GatherND(x, index)
	close64(t, "gather_nd", read(t, got), numbers(array.Shape{3, 2}, array.F64, 11, 12, 1, 2, 11, 12))
	updates := s.Tensor(numbers(array.Shape{3, 2}, array.F64, 10, 20, 30, 40, 50, 60))
	close64(t, "scatter_nd_add", read(t, op.ScatterNDAdd(x, index, updates)),
		numbers(array.Shape{2, 3, 2}, array.F64, 31, 42, 3, 4, 5, 6, 7, 8, 9, 10, 71, 92))
	close64(t, "scatter_nd", read(t, op.ScatterND(x, index, updates)),
		numbers(array.Shape{2, 3, 2}, array.F64, 30, 40, 3, 4, 5, 6, 7, 8, 9, 10, 50, 60))
	if bad := op.GatherND(x, s.Tensor(numbers(array.Shape{1, 4}, array.I64))); bad.Err() == nil {
		t.Error("an index of more numbers than dims: no error")
	}
	if bad := op.ScatterND(x, index, x); bad.Err() == nil {
		t.Error("updates that do not fit: no error")
	}
}

// TestIndexCopy: the last of several for one place counts, for values and for gradients.
func TestIndexCopy(t *testing.T) {
	s := device(t, 1).NewSession()
	x, source := s.Tensor(counting(3, 2)).Track(), s.Tensor(numbers(array.Shape{3, 2}, array.F64, 10, 20, 30, 40,
		50, 60)).Track()
	y := op.IndexCopy(x, 0, s.Tensor(numbers(array.Shape{3}, array.I64, 2, 0, 2)), source)
	close64(t, "index_copy", read(t, y), numbers(array.Shape{3, 2}, array.F64, 30, 40, 3, 4, 50, 60))
	g := op.Grad([]*op.Tensor{op.Sum(op.Mul(y, s.Tensor(counting(3, 2))))}, nil, []*op.Tensor{x, source})
	close64(t, "gradient of x", read(t, g[0]), numbers(array.Shape{3, 2}, array.F64, 0, 0, 3, 4, 0, 0))
	close64(t, "gradient of source", read(t, g[1]), numbers(array.Shape{3, 2}, array.F64, 0, 0, 1, 2, 5, 6))
}

// TestCumMax: ties go to the last, and a NaN stays.
func TestCumMax(t *testing.T) {
	s := device(t, 1).NewSession()
	x := s.Tensor(numbers(array.Shape{6}, array.F64, 1, 3, 2, 3, math.NaN(), 9))
	v, i := op.CumMax(x, 0)
	close64(t, "cummax", read(t, v), numbers(array.Shape{6}, array.F64, 1, 3, 3, 3, math.NaN(), math.NaN()))
	close64(t, "places", read(t, i), numbers(array.Shape{6}, array.I64, 0, 1, 1, 3, 4, 4))
	v, i = op.CumMin(op.Neg(x), -1)
	close64(t, "cummin", read(t, v), numbers(array.Shape{6}, array.F64, -1, -3, -3, -3, math.NaN(), math.NaN()))
	close64(t, "places", read(t, i), numbers(array.Shape{6}, array.I64, 0, 1, 1, 3, 4, 4))
}

// TestNorms: each norm is its definition.
func TestNorms(t *testing.T) {
	s := device(t, 1).NewSession()
	x := s.Tensor(numbers(array.Shape{2, 2}, array.F64, 3, -4, 0, 2))
	for p, want := range map[float64][]float64{0: {2, 1}, 1: {7, 2}, 2: {5, 2}, 3: {math.Cbrt(91), 2},
		math.Inf(1): {4, 2}, math.Inf(-1): {3, 0}} {
		close64(t, "norm", read(t, op.Norm(x, p, 1)), numbers(array.Shape{2}, array.F64, want...))
	}
}

// TestChannelNorms: groups of channels are layers, instances are groups of one, batches go over all but
// channels.
func TestChannelNorms(t *testing.T) {
	s := device(t, 1).NewSession()
	x, gamma, beta := s.Tensor(random(1, array.F64, 3, 4, 5, 2)), s.Tensor(random(2, array.F64,
		4)), s.Tensor(random(3, array.F64, 4))
	scaled := func(y *op.Tensor) *op.Tensor {
		return op.Add(op.Mul(y, op.Reshape(gamma, 4, 1, 1)), op.Reshape(beta, 4, 1, 1))
	}
	layer := func(x *op.Tensor, shape ...int) *op.Tensor {
		return op.Reshape(op.LayerNorm(op.Reshape(x, shape...), nil, nil, 1e-5), x.Shape()...)
	}
	close64(t, "group", read(t, op.GroupNorm(x, 2, gamma, beta, 1e-5)), read(t, scaled(layer(x, 3, 2, 20))))
	close64(t, "instance", read(t, op.InstanceNorm(x, gamma, beta, 1e-5)), read(t, scaled(layer(x, 3, 4, 10))))
	y, mean, _ := op.BatchNorm(x, gamma, beta, 1e-5)
	turned := op.Transpose(x, 1, 0, 2, 3)
	close64(t, "batch", read(t, y), read(t, scaled(op.Transpose(layer(turned, 4, 30), 1, 0, 2, 3))))
	close64(t, "means", read(t, mean), read(t, op.Mean(x, 0, 2, 3)))
	if bad := op.GroupNorm(x, 3, nil, nil, 1e-5); bad.Err() == nil {
		t.Error("4 channels in 3 groups: no error")
	}
}

// TestConvTranspose: it is the transpose of the convolution, ⟨conv(x), y⟩ = ⟨x, transpose(y)⟩, over one to
// three dims.
func TestConvTranspose(t *testing.T) {
	s := device(t, 2).NewSession()
	c := op.ConvConfig{Stride: []int{2}, Padding: []int{1}, Groups: 2}
	for _, k := range []struct {
		x, kernel       array.Shape
		conv, transpose func(x, kernel, bias *op.Tensor, c op.ConvConfig) *op.Tensor
	}{
		{array.Shape{2, 4, 7}, array.Shape{6, 2, 3}, op.Conv1D, op.ConvTranspose1D},
		{array.Shape{2, 4, 7, 5}, array.Shape{6, 2, 3, 3}, op.Conv2D, op.ConvTranspose2D},
		{array.Shape{2, 4, 3, 7, 5}, array.Shape{6, 2, 3, 3, 3}, op.Conv3D, op.ConvTranspose3D},
	} {
		x, kernel := s.Tensor(random(1, array.F64, k.x...)), s.Tensor(random(2, array.F64, k.kernel...))
		z := k.conv(x, kernel, nil, c)
		y := s.Tensor(random(3, array.F64, z.Shape()...))
		back := k.transpose(y, kernel, nil, c)
		close64(t, "transpose", read(t, op.Sum(op.Mul(z, y))), read(t, op.Sum(op.Mul(x, back))))
	}
}

// TestConv3D: with a kernel of one slice, each slice of depth is convolved alone.
func TestConv3D(t *testing.T) {
	s := device(t, 2).NewSession()
	x, kernel := s.Tensor(random(1, array.F64, 2, 3, 4, 6, 5)), s.Tensor(random(2, array.F64, 5, 3, 2, 3, 2))
	got := op.Conv3D(x, kernel, nil, op.ConvConfig{Padding: []int{0, 1, 0}})
	for d := range 3 {
		var want *op.Tensor
		for tap := range 2 {
			slice := op.Squeeze(op.Narrow(x, 2, d+tap, d+tap+1), 2)
			part := op.Conv2D(slice, op.Squeeze(op.Narrow(kernel, 2, tap, tap+1), 2), nil,
				op.ConvConfig{Padding: []int{1, 0}})
			want = op.AddN(append([]*op.Tensor{part}, nonNil(want)...)...)
		}
		close64(t, "slice", read(t, op.Squeeze(op.Narrow(got, 2, d, d+1), 2)), read(t, want))
	}
}

func nonNil(x *op.Tensor) []*op.Tensor {
	if x == nil {
		return nil
	}
	return []*op.Tensor{x}
}

// TestUnbind: slices without the dim, and a mistake that is carried on.
func TestUnbind(t *testing.T) {
	s := device(t, 1).NewSession()
	parts := op.Unbind(s.Tensor(counting(2, 3)), -1)
	if len(parts) != 3 {
		t.Fatalf("%d parts: want 3", len(parts))
	}
	close64(t, "part", read(t, parts[1]), numbers(array.Shape{2}, array.F64, 2, 5))
	if bad := op.Unbind(s.Tensor(counting(2, 3)), 2); bad[0].Err() == nil {
		t.Error("no such dim: no error")
	}
}
