package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// DynamicUpdateSlice returns x with a slice of it replaced by update. The slice begins at start[i] along
// dims[i], clamped so that it is within x; along other dims update has x's size. start is an integer vector,
// or a scalar for one dim. If x is not used afterwards, it is updated in place.
func DynamicUpdateSlice(x, update, start *Tensor, dims ...int) *Tensor {
	return apply1(dynamicUpdateSlice{Dims: ownDims(x, dims)}, x, update, start)
}

// dynamicUpdateSlice may have a shard of x: along each of Dims from Offset on, of Total; empty means all of
// it. It ignores the part of the update that belongs to other shards.
type dynamicUpdateSlice struct {
	mover
	Dims          []int
	Offset, Total []int
}

func (dynamicUpdateSlice) Name() string    { return "dynamic_update_slice" }
func (dynamicUpdateSlice) Linear() [][]int { return [][]int{{0, 1}} }
func (dynamicUpdateSlice) InPlace() []int  { return []int{0} }

func (o dynamicUpdateSlice) Infer(in []Type) ([]Type, error) {
	if len(in) != 3 {
		return nil, fmt.Errorf("want 3 operands: got %d", len(in))
	}
	if err := wantSame(in[:2], 2); err != nil {
		return nil, err
	}
	if err := wantStart(in[0], in[2], o.Dims); err != nil {
		return nil, err
	}
	want := in[0].Shape.Clone()
	fits := len(in[1].Shape) == len(want) && o.partFits(in[0].Shape)
	for i, d := range o.Dims {
		if fits && in[1].Shape[d] <= o.total(i, want[d]) {
			want[d] = in[1].Shape[d]
		}
	}
	if !fits || !in[1].Shape.Equal(want) {
		return nil, fmt.Errorf("cannot put %v into %v along dims %v", in[1], in[0], o.Dims)
	}
	return in[:1], nil
}

// total returns the global size of the i-th of Dims, of which the shard has n elements.
func (o dynamicUpdateSlice) total(i, n int) int {
	if len(o.Total) > 0 {
		return o.Total[i]
	}
	return n
}

// partFits reports whether the shape of x is consistent with Offset and Total.
func (o dynamicUpdateSlice) partFits(x array.Shape) bool {
	if len(o.Offset) == 0 && len(o.Total) == 0 {
		return true
	}
	if len(o.Offset) != len(o.Dims) || len(o.Total) != len(o.Dims) {
		return false
	}
	for i, d := range o.Dims {
		if o.Offset[i] < 0 || o.Total[i] < x[d] || o.Offset[i] > o.Total[i]-x[d] {
			return false
		}
	}
	return true
}

func (o dynamicUpdateSlice) VJP(in, _, dy []*Tensor) []*Tensor {
	whole := dy[0]
	if len(o.Total) > 0 {
		p := o.around(dy[0].Shape())
		whole = p.of(dy[0])
	}
	sizes := make([]int, len(o.Dims))
	for i, d := range o.Dims {
		sizes[i] = in[1].Dim(d)
	}
	return []*Tensor{
		apply1(o, dy[0], ZerosLike(in[1]), in[2]),
		DynamicSlice(whole, in[2], o.Dims, sizes),
		nil,
	}
}

// around returns the padding that extends a shard to the whole tensor.
func (o dynamicUpdateSlice) around(part array.Shape) pad {
	p := newPad(len(part))
	for i, d := range o.Dims {
		p.Low[d], p.High[d] = o.Offset[i], o.Total[i]-o.Offset[i]-part[d]
	}
	return p
}

// Rule lets x be split: each device writes its own part of the update, and needs the whole update.
func (o dynamicUpdateSlice) Rule(in []Type) mesh.Rule {
	_, box, start := boxWords(len(in[0].Shape), o.Dims, in[2])
	x := factors(0, len(in[0].Shape))
	return mesh.Rule(x + "," + box + "," + start + "->" + x)
}

func (o dynamicUpdateSlice) Localize(at *Place) (Op, error) {
	local := dynamicUpdateSlice{Dims: o.Dims, Offset: make([]int, len(o.Dims)), Total: make([]int, len(o.Dims))}
	for i, d := range o.Dims {
		local.Offset[i], local.Total[i] = at.InRange(0, d).Start, o.total(i, at.In[0].Shape[d])
		if len(o.Offset) > 0 {
			local.Offset[i] += o.Offset[i]
		}
	}
	return local, nil
}

func (o dynamicUpdateSlice) Eval(env *Env, in, out []array.Array) {
	startFrom(env, out[0], in[0])
	box := in[1].Shape().Clone()
	to, from := whole(out[0]), whole(in[1])
	for i, d := range o.Dims {
		n, offset := out[0].Shape()[d], 0
		if len(o.Offset) > 0 {
			offset = o.Offset[i]
		}
		at := max(0, min(indexAt(in[2], i), o.total(i, n)-box[d]))
		lo, hi := max(at, offset), min(at+box[d], offset+n)
		box[d] = max(hi-lo, 0)
		if box[d] > 0 {
			to.offset += (lo - offset) * to.strides[d]
			from.offset += (lo - at) * from.strides[d]
		}
	}
	if box.Len() > 0 {
		moveStrided(env, box, to, from)
	}
}

// indexAt returns element i of a vector of indices.
func indexAt(a array.Array, i int) int {
	if a.DType() == array.I32 {
		return int(array.Data[int32](a)[i])
	}
	return int(array.Data[int64](a)[i])
}

// Work counts the update only, because the op normally runs in place.
func (o dynamicUpdateSlice) Work(in, _ []Type) Work { return Work{Bytes: 2 * moved(in[1:2], nil)} }

func (o dynamicUpdateSlice) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if len(o.Total) > 0 {
		return o.emitPart(w, in, out[0])
	}
	operands := append([]hlo.Ref{in[0], in[1]}, emitStarts(w, in[2], len(in[0].Shape), o.Dims)...)
	return []hlo.Ref{w.Op("dynamic_update_slice", "", hloType(out[0]), operands...)}
}

// emitPart writes the update into an array that contains the shard, and slices the shard from it.
func (o dynamicUpdateSlice) emitPart(w *hlo.Writer, in []hlo.Ref, out Type) []hlo.Ref {
	p := o.around(out.Shape)
	end := out.Shape.Clone()
	full := Type{DType: out.DType, Shape: out.Shape.Clone()}
	for d := range end {
		end[d] += p.Low[d]
		full.Shape[d] += p.Low[d] + p.High[d]
	}
	x := p.Emit(w, in[:1], []Type{full})
	y := dynamicUpdateSlice{Dims: o.Dims}.Emit(w, []hlo.Ref{x[0], in[1], in[2]}, []Type{full})
	return []hlo.Ref{emitSlice(w, y[0], p.Low, end, ones(len(end)), out)}
}

func (dynamicUpdateSlice) Samples() []Sample {
	return []Sample{
		{Op: dynamicUpdateSlice{Dims: []int{1}}, In: []Arg{f32(5, 7, 6), f32(5, 3, 6), i32Below(7)}},
		{Op: dynamicUpdateSlice{Dims: []int{0, 1}}, In: []Arg{f32(5, 7), f32(2, 3), i32Below(4, 2)}},
		{Op: dynamicUpdateSlice{Dims: []int{1}, Offset: []int{2}, Total: []int{9}},
			In: []Arg{f32(5, 4), f32(5, 3), i32Below(7)}},
	}
}
