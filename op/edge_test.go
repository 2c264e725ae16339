package op_test

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// refused checks that a tensor is a mistake that says so, with the place.
func refused(t *testing.T, want string, x *op.Tensor) {
	t.Helper()
	if err := x.Err(); err == nil || !strings.Contains(err.Error(), want) ||
		!strings.HasPrefix(err.Error(), "edge_test.go:") {
		t.Errorf("got %v, want the place and %q", err, want)
	}
}

// TestConvTransposeSizes: padding that cuts off more than there is, and lists that do not fit, are refused.
func TestConvTransposeSizes(t *testing.T) {
	s := shapeSession(t)
	x, kernel := ramp(s, 1, 2, 3, 3), ramp(s, 2, 1, 2, 2)
	transpose := func(c op.ConvConfig) *op.Tensor { return op.ConvTranspose2D(x, kernel, nil, c) }
	refused(t, "got a result of size 0, want at least 1", transpose(op.ConvConfig{Padding: []int{2}}))
	refused(t, "got a result of size -4", transpose(op.ConvConfig{Padding: []int{0, 4}}))
	refused(t, "want one number for each", transpose(op.ConvConfig{Stride: []int{1, 1, 1}}))
	refused(t, "want one number for each", transpose(op.ConvConfig{Dilation: []int{1, 1, 1}}))
	refused(t, "groups -1", transpose(op.ConvConfig{Groups: -1}))
	refused(t, "output padding [2 2]", transpose(op.ConvConfig{Stride: []int{2}, OutputPadding: []int{2}}))
	refused(t, "output padding [1]", op.Conv2D(x, ramp(s, 1, 2, 2, 2), nil,
		op.ConvConfig{OutputPadding: []int{1}}))
	longer := transpose(op.ConvConfig{Stride: []int{2}, OutputPadding: []int{1, 0}})
	if got := longer.Shape(); !got.Equal(array.Shape{1, 1, 7, 6}) {
		t.Errorf("output padding: got %v (%v)", got, longer.Err())
	}
	wants(t, "no longer than needed", op.ConvTranspose1D(ramp(s, 1, 1, 3), ramp(s, 1, 1, 2), nil,
		op.ConvConfig{Padding: []int{1}}), "f32[1,1,2]{0 1}")
}

// TestPiecesOfNothing: dims of size 0 have no slices, and no pieces at all are refused in either mode.
func TestPiecesOfNothing(t *testing.T) {
	s := shapeSession(t)
	none := s.Tensor(array.New(array.F32, 3, 0))
	if got := op.Unbind(none, 1); len(got) != 0 {
		t.Errorf("unbind of size 0: got %v", got)
	}
	if got := op.Unbind(none, 0); len(got) != 3 || !got[0].Shape().Equal(array.Shape{0}) {
		t.Errorf("unbind to size 0: got %v", got)
	}
	if got := op.Chunk(none, 1, 2); len(got) != 2 || !got[1].Shape().Equal(array.Shape{3, 0}) {
		t.Errorf("chunk of size 0: got %v", got)
	}
	refused(t, "chunk: 0 pieces", op.Chunk(none, 1, 0)[0])
	refused(t, "split: cannot cut", op.Split(none, 1)[0])
}

func TestTransposeCountsFromTheLast(t *testing.T) {
	s := shapeSession(t)
	wants(t, "transpose", op.Transpose(ramp(s, 2, 1, 3), -1, 0, -2), "f32[3,2,1]{0 3 1 4 2 5}")
	refused(t, "not a permutation", op.Transpose(ramp(s, 2, 3), -1, 1))
}

// TestEinsumOfSeveral: the order of products is free, their result is not.
func TestEinsumOfSeveral(t *testing.T) {
	s := shapeSession(t)
	x, y, z, w := ramp(s, 2, 3), ramp(s, 3, 4), ramp(s, 4, 2), ramp(s, 2)
	want := op.Einsum("ac,c->ca", op.Einsum("ab,bc->ac", op.Einsum("ab,bc->ac", x, y), z), w)
	for _, c := range []struct {
		equation string
		in       []*op.Tensor
	}{
		{"ij,jk,kl,l->li", []*op.Tensor{x, y, z, w}},
		{"l, kl, ij, jk -> li", []*op.Tensor{w, z, x, y}},
	} {
		wants(t, c.equation, op.Einsum(c.equation, c.in...), read(t, want).String())
	}
	wants(t, "letters of one operand", op.Einsum("a,b,c->", w, w, ramp(s, 3)), "f32[]{3}")
	refused(t, "does not fit 2 operands", op.Einsum("a,b,c->a", w, w))
	refused(t, "stands twice", op.Einsum("aa,b,c->a", w, w, w))
}

// TestPooling1DAnd3D: what is two-dimensional over a dim of size one.
func TestPooling1DAnd3D(t *testing.T) {
	s := shapeSession(t)
	x := ramp(s, 1, 1, 6)
	c := op.PoolConfig{Kernel: []int{3}, Stride: []int{2}, Padding: []int{1}}
	wants(t, "max 1d", op.MaxPool1D(x, c), "f32[1,1,3]{1 3 5}")
	wants(t, "avg 1d", op.AvgPool1D(x, c), "f32[1,1,3]{0.33333334 2 4}")
	cube := op.Reshape(ramp(s, 16), 1, 1, 2, 2, 4)
	wants(t, "max 3d", op.MaxPool3D(cube, op.PoolConfig{Kernel: []int{2}}), "f32[1,1,1,1,2]{13 15}")
	wants(t, "avg 3d", op.AvgPool3D(cube, op.PoolConfig{Kernel: []int{2, 1, 2}}),
		"f32[1,1,1,2,2]{4.5 6.5 8.5 10.5}")
	refused(t, "does not fit", op.MaxPool1D(s.Tensor(array.New(array.F32, 1, 1, 0)),
		op.PoolConfig{Kernel: []int{2}, Padding: []int{1}}))
}

// TestSumsOfIntegers: sums and products of integers are exact, and i64 where many add up.
func TestSumsOfIntegers(t *testing.T) {
	s := shapeSession(t)
	x := s.Tensor(array.FromSlice([]int32{1 << 30, 1 << 30, 1 << 30, -5, 2, 3}, 2, 3))
	wants(t, "sum", op.Sum(x, 1), "i64[2]{3221225472 0}")
	wants(t, "prod", op.Prod(op.Clamp(x, -5, 1<<20), 1), "i64[2]{1152921504606846976 -30}")
	wants(t, "count", op.Sum(op.Greater(x, op.Const(x, 0))), "i64[]{5}")
	wants(t, "clamp", op.Clamp(x, -2.5, 2.5), "i32[2,3]{2 2 2 -2 2 2}")
	y := s.Tensor(array.FromSlice([]int64{1, 2, 3, 4, 5, 6}, 2, 3))
	wants(t, "matmul", op.MatMulT(y, y, false, true), "i64[2,2]{14 32 32 77}")
	wants(t, "matmul of columns", op.MatMulT(y, y, true, false), "i64[3,3]{17 22 27 22 29 36 27 36 45}")
	refused(t, "out of order", op.Clamp(x, 2.2, 2.8))
}

// TestGradientsAtTheEdge: what has a finite answer has it, also beside what has none.
func TestGradientsAtTheEdge(t *testing.T) {
	s := shapeSession(t)
	inf := float32(math.Inf(1))
	grad := func(f func(x *op.Tensor) *op.Tensor, x *op.Tensor) *op.Tensor {
		x = x.Track()
		return op.Grad([]*op.Tensor{f(x)}, nil, []*op.Tensor{x})[0]
	}
	sumExp := func(x *op.Tensor) *op.Tensor { return op.LogSumExp(x) }
	wants(t, "logsumexp at +Inf", grad(sumExp, vector(s, 1, inf, 2)), "f32[3]{0 NaN 0}")
	wants(t, "logsumexp at -Inf", grad(sumExp, vector(s, -inf, -inf)), "f32[2]{0 0}")
	wants(t, "norm of zeros", grad(func(x *op.Tensor) *op.Tensor { return op.Norm(x, 2) }, vector[float32](s, 0,
		0)), "f32[2]{0 0}")
	labels := vector[int32](s, -100, -100)
	loss := func(x *op.Tensor) *op.Tensor { return op.CrossEntropy(x, labels, op.CrossEntropyConfig{}) }
	product := func(x *op.Tensor) *op.Tensor {
		return op.Sum(op.Grad([]*op.Tensor{loss(x)}, nil,
			[]*op.Tensor{x})[0])
	}
	wants(t, "loss of no rows", loss(ramp(s, 2, 3)), "f32[]{NaN}")
	wants(t, "its gradient", grad(loss, ramp(s, 2, 3)), "f32[2,3]{0 0 0 0 0 0}")
	wants(t, "its Hessian product", grad(product, ramp(s, 2, 3)), "f32[2,3]{0 0 0 0 0 0}")
}
