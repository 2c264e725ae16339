package optest

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// compare combines a partial result and compares each device's part with that of the whole result.
func (c *ruleCase) compare(m *mesh.Mesh, r int, spec mesh.Spec, held [][]array.Array) error {
	parts := map[int]array.Array{}
	for _, id := range m.Devices() {
		parts[id] = held[id][r]
	}
	exact := !c.loose() && c.sharedSequence == nil
	for _, p := range spec.Partial {
		groups, err := m.GroupsOver(mesh.Axes{p.Sub})
		if err != nil {
			return err
		}
		for _, g := range groups {
			combine(p.Reduce, parts, g)
		}
		exact = exact && p.Reduce != mesh.Sum && p.Reduce != mesh.Prod
	}
	for _, id := range m.Devices() {
		want, err := piece(m, mesh.Spec{Dims: spec.Dims}, c.want[r], id)
		if err != nil {
			return err
		}
		got := parts[id]
		if exact && string(got.Bytes()) != string(want.Bytes()) || !exact &&
			relative(got, want, c.want[r]) > Tolerance(got.DType()) {
			return fmt.Errorf("device %d holds %v, want %v", id, got, want)
		}
	}
	return nil
}

// loose reports whether bits may differ although no sum is split.
func (c *ruleCase) loose() bool {
	return blockedSums[c.op.Name()] && slices.ContainsFunc(c.in,
		func(t op.Type) bool { return t.DType == array.F32 })
}

// blockedSums is the ops whose kernels sum in blocks that go by the size of what they are given, so that f32
// bits may differ: attention cuts the keys by what its queries see together.
var blockedSums = map[string]bool{"attention": true, "attention_grad": true}

// relative returns the largest difference of two parts in terms of the largest number of the whole.
func relative(got, want, whole array.Array) float64 {
	diff, top := 0.0, 1e-300
	for i := range want.Len() {
		g, w := got.At(i), want.At(i)
		if g == w || g != g && w != w {
			continue
		}
		diff = max(diff, math.Abs(g-w))
		if math.IsNaN(g - w) {
			return math.Inf(1)
		}
	}
	for i := range whole.Len() {
		if w := math.Abs(whole.At(i)); !math.IsInf(w, 0) {
			top = max(top, w)
		}
	}
	return diff / top
}

// piece returns a device's part of a tensor.
func piece(m *mesh.Mesh, spec mesh.Spec, x array.Array, id int) (array.Array, error) {
	l, err := spec.Layout(m, x.Shape())
	if err != nil {
		return array.Array{}, err
	}
	box, _ := l.Box(id)
	out := array.New(x.DType(), box.Size...)
	if len(box.Size) == 0 {
		copy(out.Bytes(), x.Bytes())
		return out, nil
	}
	if box.Empty() {
		return out, nil
	}
	last := len(box.Size) - 1
	width, strides := box.Size[last]*x.DType().Size(), x.Shape().Strides()
	for row := range box.Len() / box.Size[last] {
		from, rest := box.Start[last], row
		for d := last - 1; d >= 0; d-- {
			from += (box.Start[d] + rest%box.Size[d]) * strides[d]
			rest /= box.Size[d]
		}
		copy(out.Bytes()[row*width:], x.Bytes()[from*x.DType().Size():][:width])
	}
	return out, nil
}

// combine gives every device of a group the reduction of what they hold.
func combine(kind mesh.Reduce, parts map[int]array.Array, group []int) {
	total := parts[group[0]].Clone()
	for _, id := range group[1:] {
		reduceInto(kind, total, parts[id])
	}
	for _, id := range group {
		parts[id] = total
	}
}

func reduceInto(kind mesh.Reduce, dst, x array.Array) {
	switch dst.DType() {
	case array.F64:
		reduceSlices(kind, array.Data[float64](dst), array.Data[float64](x))
	case array.F32:
		reduceSlices(kind, array.Data[float32](dst), array.Data[float32](x))
	case array.I64:
		reduceSlices(kind, array.Data[int64](dst), array.Data[int64](x))
	case array.I32:
		reduceSlices(kind, array.Data[int32](dst), array.Data[int32](x))
	case array.Bool:
		for i, v := range array.Data[bool](x) {
			b := &array.Data[bool](dst)[i]
			if kind == mesh.Any {
				*b = *b || v
			} else {
				*b = *b && v
			}
		}
	default:
		panic("no reduction of " + dst.DType().String())
	}
}

func reduceSlices[T float64 | float32 | int64 | int32](kind mesh.Reduce, dst, x []T) {
	for i, v := range x {
		switch kind {
		case mesh.Sum:
			dst[i] += v
		case mesh.Prod:
			dst[i] *= v
		case mesh.Max:
			dst[i] = T(math.Max(float64(dst[i]), float64(v)))
		case mesh.Min:
			dst[i] = T(math.Min(float64(dst[i]), float64(v)))
		default:
			panic("no reduction " + kind.String() + " of numbers")
		}
	}
}
