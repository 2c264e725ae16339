package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// DynamicSlice returns a slice of x that begins at start[i] along dims[i] and has sizes[i] elements there;
// other dims are taken whole. start is an integer vector, or a scalar for one dim; it is clamped so that the
// slice is within x.
func DynamicSlice(x, start *Tensor, dims, sizes []int) *Tensor {
	return apply1(dynamicSlice{Dims: ownDims(x, dims), Sizes: sizes}, x, start)
}

// ownDims returns dims with negative ones resolved, in the given order.
func ownDims(x *Tensor, dims []int) []int {
	own := make([]int, len(dims))
	for i, d := range dims {
		own[i] = normDim(len(x.Shape()), d)
	}
	return own
}

type dynamicSlice struct {
	mover
	Dims, Sizes []int
}

func (dynamicSlice) Name() string    { return "dynamic_slice" }
func (dynamicSlice) Linear() [][]int { return [][]int{{0}} }

func (o dynamicSlice) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 {
		return nil, fmt.Errorf("want 2 operands: got %d", len(in))
	}
	if err := wantStart(in[0], in[1], o.Dims); err != nil {
		return nil, err
	}
	if len(o.Sizes) != len(o.Dims) {
		return nil, fmt.Errorf("%d sizes for dims %v of %v", len(o.Sizes), o.Dims, in[0])
	}
	shape := in[0].Shape.Clone()
	for i, d := range o.Dims {
		if o.Sizes[i] < 0 || o.Sizes[i] > shape[d] {
			return nil, fmt.Errorf("cannot take %d elements of dim %d of %v", o.Sizes[i], d, in[0])
		}
		shape[d] = o.Sizes[i]
	}
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

// wantStart checks that start has one index for each of dims.
func wantStart(x, start Type, dims []int) error {
	if err := wantIndices(start); err != nil {
		return err
	}
	if !distinct(x, dims) {
		return fmt.Errorf("dims %v do not fit %v", dims, x)
	}
	if len(start.Shape) > 1 || start.Shape.Len() != len(dims) {
		return fmt.Errorf("start %v: want one index for each of dims %v", start, dims)
	}
	return nil
}

func (o dynamicSlice) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{DynamicUpdateSlice(ZerosLike(in[0]), dy[0], in[1], o.Dims...), nil}
}

func (o dynamicSlice) Rule(in []Type) mesh.Rule {
	x, box, start := boxWords(len(in[0].Shape), o.Dims, in[1])
	return mesh.Rule(x + "," + start + "->" + box)
}

// boxWords names the factors of a tensor, of a slice of it, whose sliced dims must not be split, and of the
// slice's start.
func boxWords(rank int, dims []int, start Type) (x, box, at string) {
	next := rank
	boxDims := map[int]string{}
	for _, d := range dims {
		boxDims[d] = factors(next, 1) + "*"
		next++
	}
	for d := range rank {
		c := factors(d, 1)
		if b, cut := boxDims[d]; cut {
			x, box = x+c+"*", box+b
		} else {
			x, box = x+c, box+c
		}
	}
	if len(start.Shape) == 1 {
		at = factors(next, 1) + "*"
	}
	return x, box, at
}

// placed returns the iteration over a slice of a that begins at start, clamped so that it is within a.
func placed(a, start array.Array, dims []int, box array.Shape) strided {
	walk := whole(a)
	for i, d := range dims {
		at := max(0, min(indexAt(start, i), a.Shape()[d]-box[d]))
		walk.offset += at * walk.strides[d]
	}
	return walk
}

func (o dynamicSlice) Eval(env *Env, in, out []array.Array) {
	shape := out[0].Shape()
	moveStrided(env, shape, whole(out[0]), placed(in[0], in[1], o.Dims, shape))
}

func (o dynamicSlice) Work(_, out []Type) Work { return Work{Bytes: 2 * moved(nil, out)} }

func (o dynamicSlice) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	operands := append([]hlo.Ref{in[0]}, emitStarts(w, in[1], len(in[0].Shape), o.Dims)...)
	return []hlo.Ref{w.Op("dynamic_slice", "slice_sizes = "+hlo.Ints(out[0].Shape), hloType(out[0]),
		operands...)}
}

// emitStarts writes one scalar for each dim: from start if it is among dims, else zero.
func emitStarts(w *hlo.Writer, start hlo.Ref, rank int, dims []int) []hlo.Ref {
	scalar := hlo.Type{DType: start.DType}
	refs := make([]hlo.Ref, rank)
	for d := range refs {
		refs[d] = w.Constant(scalar, 0)
	}
	for i, d := range dims {
		one := start
		if len(start.Shape) == 1 {
			one = emitSlice(w, start, []int{i}, []int{i + 1}, []int{1},
				Type{DType: start.DType, Shape: array.Shape{1}})
			one = w.Op("reshape", "", scalar, one)
		}
		refs[d] = one
	}
	return refs
}

func (dynamicSlice) Samples() []Sample {
	return []Sample{
		{Op: dynamicSlice{Dims: []int{1}, Sizes: []int{3}}, In: []Arg{f32(5, 7, 6), i32Below(7)}},
		{Op: dynamicSlice{Dims: []int{0, 1}, Sizes: []int{2, 3}}, In: []Arg{f32(5, 7), i32Below(4, 2)}},
	}
}
