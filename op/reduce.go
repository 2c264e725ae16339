package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// normDims makes dims non-negative and sorted; none means all of them. Invalid dims are left for Infer to
// report.
func normDims(rank int, dims []int) []int {
	if len(dims) == 0 {
		all := make([]int, rank)
		for i := range all {
			all[i] = i
		}
		return all
	}
	out := make([]int, len(dims))
	for i, d := range dims {
		if d < 0 {
			d += rank
		}
		out[i] = d
	}
	slices.Sort(out)
	return out
}

// normDim makes one dim non-negative.
func normDim(rank, d int) int {
	if d < 0 {
		return d + rank
	}
	return d
}

// reducedShape returns the shape without dims.
func reducedShape(t Type, dims []int) (array.Shape, error) {
	var out array.Shape
	for i, d := range dims {
		if d < 0 || d >= len(t.Shape) || i > 0 && dims[i-1] == d {
			return nil, fmt.Errorf("dims %v do not fit %v", dims, t)
		}
	}
	for d, n := range t.Shape {
		if !slices.Contains(dims, d) {
			out = append(out, n)
		}
	}
	return out, nil
}

// reduceRule returns the rule of a reduction whose reduced dims are combined by kind.
func reduceRule(rank int, dims []int, kind string) mesh.Rule {
	word := factors(0, rank)
	var out []byte
	notes := ""
	for d := range rank {
		if !slices.Contains(dims, d) {
			out = append(out, word[d])
		} else if kind != "sum" {
			notes += " " + word[d:d+1] + ":" + kind
		}
	}
	if notes != "" {
		notes = ";" + notes
	}
	return mesh.Rule(word + "->" + string(out) + notes)
}

// keepDims returns y, a reduction of x along dims, with those dims restored as ones, so that it broadcasts
// against x.
func keepDims(y, x *Tensor, dims []int) *Tensor {
	shape := x.Shape().Clone()
	for _, d := range dims {
		if d < len(shape) {
			shape[d] = 1
		}
	}
	return Reshape(y, shape...)
}

// group is a reduction of one run of adjacent dims: outer × reduced × inner elements. last means that no dims
// follow the run; that the dims after it have one element is not enough, because an order of sums that
// depended on sizes would differ between a tensor and its shards.
type group struct {
	outer, reduced, inner int
	last                  bool
}

// groups splits a reduction into runs of adjacent dims, last run first: each is a simple loop nest.
func groups(shape array.Shape, dims []int) []group {
	var gs []group
	inner, last := 1, true // elements of kept dims after the run, and whether there are none
	for d := len(shape) - 1; d >= 0; {
		if !slices.Contains(dims, d) {
			inner, last = inner*shape[d], false
			d--
			continue
		}
		g := group{outer: 1, reduced: 1, inner: inner, last: last}
		for d >= 0 && slices.Contains(dims, d) {
			g.reduced *= shape[d]
			d--
		}
		for _, n := range shape[:d+1] {
			g.outer *= n
		}
		gs = append(gs, g)
	}
	return gs
}

// foldGroups reduces x into dst group by group with fold, which handles one outer × reduced × inner nest.
func foldGroups[T array.Elem](dst, x []T, gs []group, fold func(dst, x []T, g group)) {
	if len(gs) == 0 {
		copy(dst, x)
		return
	}
	for i, g := range gs {
		to := dst
		if i < len(gs)-1 {
			to = make([]T, g.outer*g.inner)
		}
		fold(to, x, g)
		x = to
	}
}
