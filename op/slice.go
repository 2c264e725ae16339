package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Slice returns every step-th element of each dim from start up to, not including, end. A negative start or
// end counts from the last element; a nil step means ones.
func Slice(x *Tensor, start, end, step []int) *Tensor {
	if x.Err() != nil {
		return x
	}
	rank := len(x.Shape())
	if step == nil {
		step = ones(rank)
	}
	if len(start) != rank || len(end) != rank || len(step) != rank {
		return apply1(slice{Dims: []int{-1}, Start: start, End: end, Step: step}, x)
	}
	var o slice
	for d, n := range x.Shape() {
		from, to := normDim(n, start[d]), normDim(n, end[d])
		if from != 0 || to != n || step[d] != 1 {
			o.Dims, o.Start, o.End, o.Step = append(o.Dims, d), append(o.Start, from), append(o.End,
				to), append(o.Step, step[d])
		}
	}
	return o.of(x)
}

// Narrow returns the elements from start up to, not including, end along one dim.
func Narrow(x *Tensor, dim, start, end int) *Tensor {
	if x.Err() != nil {
		return x
	}
	d := normDim(len(x.Shape()), dim)
	n := x.Dim(d)
	start, end = normDim(n, start), normDim(n, end)
	if start == 0 && end == n && d >= 0 && d < len(x.Shape()) {
		return x
	}
	return apply1(slice{Dims: []int{d}, Start: []int{start}, End: []int{end}, Step: []int{1}}, x)
}

func (o slice) of(x *Tensor) *Tensor {
	if len(o.Dims) == 0 {
		return x
	}
	return apply1(o, x)
}

// slice lists only the dims that it cuts, so that it applies to shards along the other dims as well.
type slice struct {
	mover
	Dims, Start, End, Step []int
}

func (slice) Name() string    { return "slice" }
func (slice) Linear() [][]int { return [][]int{{0}} }

func (o slice) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("want 1 operand: got %d", len(in))
	}
	if len(o.Start) != len(o.Dims) || len(o.End) != len(o.Dims) || len(o.Step) != len(o.Dims) ||
		!distinct(in[0], o.Dims) {
		return nil, fmt.Errorf("start %v, end %v and step %v do not fit the dims of %v", o.Start, o.End, o.Step,
			in[0])
	}
	shape := in[0].Shape.Clone()
	for i, d := range o.Dims {
		if o.Start[i] < 0 || o.Start[i] > o.End[i] || o.End[i] > shape[d] || o.Step[i] < 1 {
			return nil, fmt.Errorf("cannot take %d:%d:%d of dim %d of %v", o.Start[i], o.End[i], o.Step[i], d, in[0])
		}
		shape[d] = (o.End[i] - o.Start[i] + o.Step[i] - 1) / o.Step[i]
	}
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

// distinct reports whether dims are different dims of t.
func distinct(t Type, dims []int) bool {
	for i, d := range dims {
		if d < 0 || d >= len(t.Shape) || slices.Contains(dims[:i], d) {
			return false
		}
	}
	return true
}

// VJP pads the gradient with zeros to the operand's shape.
func (o slice) VJP(in, y, dy []*Tensor) []*Tensor {
	p := newPad(len(in[0].Shape()))
	for i, d := range o.Dims {
		n, m := in[0].Dim(d), y[0].Dim(d)
		p.Low[d], p.Interior[d] = o.Start[i], o.Step[i]-1
		if m == 0 {
			p.Low[d], p.Interior[d] = n, 0
			continue
		}
		p.High[d] = n - o.Start[i] - (m-1)*o.Step[i] - 1
	}
	return []*Tensor{p.of(dy[0])}
}

func (o slice) Rule(in []Type) mesh.Rule { return cutRule(len(in[0].Shape), o.Dims) }

// Follow lets a sliced dim have the layout of the dim, for inference.
func (o slice) Follow(in, _ []Type) (mesh.Rule, string) {
	return followDims(len(in[0].Shape), 2, o.Dims)
}

// followDims returns the rule for inference of n tensors, an operand and its results, that have the same dims
// in the same order, some of them cut or moved.
func followDims(rank, n int, dims []int) (mesh.Rule, string) {
	if rank > len(letters) {
		return mesh.Unknown, ""
	}
	moves := ""
	for _, d := range dims {
		moves += factors(d, 1)
	}
	return sameRule(rank, 1, n-1), moves
}

// cutRule returns the rule of an op whose attributes change the size of dims: these must not be split.
func cutRule(rank int, dims []int) mesh.Rule {
	if rank+len(dims) > len(letters) {
		return mesh.Unknown
	}
	in, out, next := "", "", rank
	for d := range rank {
		c := letters[d : d+1]
		if slices.Contains(dims, d) {
			in, out, next = in+c+"*", out+letters[next:next+1]+"*", next+1
		} else {
			in, out = in+c, out+c
		}
	}
	return mesh.Rule(in + "->" + out)
}

func (o slice) Eval(env *Env, in, out []array.Array) {
	from := whole(in[0])
	for i, d := range o.Dims {
		from.offset += o.Start[i] * from.strides[d]
	}
	for i, d := range o.Dims {
		from.strides[d] *= o.Step[i]
	}
	moveStrided(env, out[0].Shape(), whole(out[0]), from)
}

func (o slice) Loop(in, out []Type) (Loop, bool) {
	strides, offset := in[0].Shape.Strides(), 0
	for i, d := range o.Dims {
		offset += o.Start[i] * strides[d]
	}
	for i, d := range o.Dims {
		strides[d] *= o.Step[i]
	}
	return moveLoop(Loop{Kind: LoopWalk, Reads: newElemWalk(out[0].Shape, offset, strides)})
}

func (o slice) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	start, end, step := make([]int, len(in[0].Shape)), in[0].Shape.Clone(), ones(len(in[0].Shape))
	for i, d := range o.Dims {
		start[d], end[d], step[d] = o.Start[i], o.End[i], o.Step[i]
	}
	return []hlo.Ref{emitSlice(w, in[0], start, end, step, out[0])}
}

func emitSlice(w *hlo.Writer, x hlo.Ref, start, end, step []int, out Type) hlo.Ref {
	attrs := fmt.Sprintf("start_indices = %s, limit_indices = %s, strides = %s", hlo.Ints(start), hlo.Ints(end),
		hlo.Ints(step))
	return w.Op("slice", attrs, hloType(out), x)
}

func (slice) Samples() []Sample {
	return []Sample{
		{Op: slice{Dims: []int{0, 1}, Start: []int{1, 0}, End: []int{4, 7}, Step: []int{1, 2}},
			In: []Arg{f32(5, 7)}},
		{Op: slice{Dims: []int{1}, Start: []int{2}, End: []int{6}, Step: []int{3}}, In: []Arg{f32(5, 7, 6)}},
		{Op: slice{Dims: []int{1}, Start: []int{2}, End: []int{2}, Step: []int{1}}, In: []Arg{f32(5, 7)}},
	}
}
