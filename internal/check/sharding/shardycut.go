package sharding

import (
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Operations that slice, pad and sort dims.

func hloSlice(o shardyOp, _, _ []ir.Type) (*translation, error) {
	var start, end, step []int
	for _, c := range o.Attrs.Cuts {
		start, end, step = append(start, c[0]), append(end, c[1]), append(step, c[2])
	}
	return hloUnary(func(x *op.Tensor) *op.Tensor { return op.Slice(x, start, end, step) }), nil
}

// hloPad slices if padding is negative, then pads.
func hloPad(o shardyOp, in, _ []ir.Type) (*translation, error) {
	rank := len(in[0].Shape)
	low, high, start, end, step := make([]int, rank), make([]int, rank), make([]int, rank), make([]int,
		rank), make([]int, rank)
	cuts := false
	for d := range rank {
		low[d], start[d] = max(o.Attrs.Low[d], 0), max(-o.Attrs.Low[d], 0)
		high[d], end[d], step[d] = max(o.Attrs.High[d], 0), in[0].Shape[d]-max(-o.Attrs.High[d], 0), 1
		cuts = cuts || start[d] > 0 || end[d] < in[0].Shape[d]
	}
	interior := make([]int, rank)
	copy(interior, o.Attrs.Interior)
	return hloUnary(func(x *op.Tensor) *op.Tensor {
		if cuts {
			x = op.Slice(x, start, end, step)
		}
		return op.PadInterior(x, low, high, interior, 0)
	}), nil
}

// hloCutDims returns the dims in which a box is smaller than x.
func hloCutDims(x, box array.Shape) (dims, sizes []int) {
	for d := range x {
		if x[d] != box[d] {
			dims, sizes = append(dims, d), append(sizes, box[d])
		}
	}
	return dims, sizes
}

func hloDynamicSlice(_ shardyOp, in, out []ir.Type) (*translation, error) {
	dims, sizes := hloCutDims(in[0].Shape, out[0].Shape)
	if len(dims) == 0 {
		return hloUnary(op.Identity), nil
	}
	return hloUnary(func(x *op.Tensor) *op.Tensor {
		return op.DynamicSlice(x, hloStarts(x, len(dims)), dims,
			sizes)
	}), nil
}

func hloDynamicUpdateSlice(_ shardyOp, in, _ []ir.Type) (*translation, error) {
	dims, _ := hloCutDims(in[0].Shape, in[1].Shape)
	return &translation{data: []int{0, 1}, build: hloOne(func(x []*op.Tensor) *op.Tensor {
		return op.DynamicUpdateSlice(x[0], x[1], hloStarts(x[0], len(dims)), dims...)
	})}, nil
}

// hloStarts returns n indices.
func hloStarts(x *op.Tensor, n int) *op.Tensor {
	return op.Full(x.Scope(), array.I32, array.Shape{n}, 0)
}

func hloSort(o shardyOp, in, _ []ir.Type) (*translation, error) {
	t := hloUnary(func(x *op.Tensor) *op.Tensor { values, _ := op.Sort(x, o.Attrs.Dimension); return values })
	t.carried = len(in) - 1
	return t, nil
}

// hloConvolution transposes dims to Galley's order and back. Padding that differs on both sides is replaced
// by even padding with the same output size.
func hloConvolution(o shardyOp, in, out []ir.Type) (*translation, error) {
	a := o.Attrs
	if a.BatchGroups > 1 {
		return nil, absent("convolution in groups of the batch does not exist")
	}
	if len(a.LhsDilation) > 0 {
		return nil, absent("convolution of a spread input does not exist")
	}
	x, rest, ok := strings.Cut(a.DimNumbers, "x")
	w, y, ok2 := strings.Cut(rest, "->")
	if !ok || !ok2 {
		return nil, absent("convolution without dim numbers does not exist")
	}
	px, pw, py := hloLayout(x, "bf"), hloLayout(w, "oi"), hloLayout(y, "bf")
	spatial := len(px) - 2
	pads := make([]int, spatial)
	for d := range pads {
		pads[d] = hloEvenPadding(in[0].Shape[px[2+d]], in[1].Shape[pw[2+d]], hloAt(a.Stride, d),
			hloAt(a.Dilation, d), out[0].Shape[py[2+d]])
		if pads[d] < 0 {
			return nil, absent("convolution padded on one side does not exist")
		}
	}
	conv := []func(x, k, b *op.Tensor, c op.ConvConfig) *op.Tensor{op.Conv1D, op.Conv2D, op.Conv3D}[spatial-1]
	back := make([]int, len(py))
	for i, d := range py {
		back[d] = i
	}
	c := op.ConvConfig{Stride: a.Stride, Padding: pads, Dilation: a.Dilation, Groups: a.Groups}
	return &translation{data: []int{0, 1}, build: hloOne(func(in []*op.Tensor) *op.Tensor {
		return op.Transpose(conv(op.Transpose(in[0], px...), op.Transpose(in[1], pw...), nil, c), back...)
	})}, nil
}

func hloAt(list []int, d int) int {
	if d < len(list) {
		return list[d]
	}
	return 1
}

// hloLayout parses [b, 0, 1, f]: the positions of the two named dims, then the spatial ones.
func hloLayout(text, names string) []int {
	words := strings.Split(strings.Trim(strings.ReplaceAll(text, " ", ""), "[]"), ",")
	perm := make([]int, len(words))
	for i, w := range words {
		if n := strings.Index(names, w); n >= 0 {
			perm[n] = i
		} else {
			perm[2+int(w[0]-'0')] = i
		}
	}
	return perm
}

// hloEvenPadding returns a padding of both sides that gives the output size, -1 if there is none.
func hloEvenPadding(in, kernel, stride, dilate, out int) int {
	for p := range kernel + 1 {
		if room := in + 2*p - (kernel-1)*dilate - 1; room >= 0 && room/stride+1 == out {
			return p
		}
	}
	return -1
}
