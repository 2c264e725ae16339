package mesh

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// must takes the value of a call that a test knows to succeed.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// drawMesh returns a mesh of up to three axes of size up to six; in half of the cases over scattered device
// ids.
func drawMesh(t *rapid.T, label string) *Mesh {
	axes, n := make([]Axis, rapid.SampledFrom([]int{2, 1, 3, 2, 0}).Draw(t, label+" axes")), 1
	for i := range axes {
		axes[i] = Axis{string(rune('x' + i)), rapid.SampledFrom([]int{2, 3, 4, 6, 1}).Draw(t, label+" size")}
		n *= axes[i].Size
	}
	if !rapid.Bool().Draw(t, label+" ids") {
		return must(New(axes))
	}
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i * 3 / 2
	}
	return must(New(axes, rapid.Permutation(ids).Draw(t, label+" devices")...))
}

// drawParts cuts each axis of the mesh into parts at random.
func drawParts(t *rapid.T, m *Mesh) Axes {
	var parts Axes
	for _, a := range m.Axes() {
		for pre := 1; ; {
			rest := a.Size / pre
			var sizes []int
			for k := 2; k <= rest; k++ {
				if rest%k == 0 {
					sizes = append(sizes, k)
				}
			}
			if len(sizes) == 0 {
				if pre == 1 {
					parts = append(parts, Sub{Axis: a.Name})
				}
				break
			}
			k := rapid.SampledFrom(sizes).Draw(t, "part of "+a.Name)
			parts = append(parts, must(m.Sub(a.Name, pre, k)))
			pre *= k
		}
	}
	return parts
}

// drawSpec gives every part of the mesh's axes to a dim, to the partial ones, or to none.
func drawSpec(t *rapid.T, m *Mesh, rank int, parts Axes) Spec {
	s := Whole(rank)
	for _, p := range rapid.Permutation(parts).Draw(t, "order") {
		switch d := rapid.IntRange(-2, rank-1).Draw(t, "dim of "+p.String()); {
		case d >= 0:
			s.Dims[d] = append(s.Dims[d], p)
		case d == -2:
			s.Partial = append(s.Partial, Pending{p, Reduce(rapid.IntRange(0, len(reduceNames)-1).Draw(t, "reduce"))})
		}
	}
	s.sortPartial()
	return s
}

func drawShape(t *rapid.T) []int {
	shape := make([]int, rapid.SampledFrom([]int{2, 1, 3, 2, 0}).Draw(t, "rank"))
	for d := range shape {
		shape[d] = rapid.SampledFrom([]int{5, 4, 8, 6, 7, 3, 1, 0, 12}).Draw(t, "dim")
	}
	return shape
}

// elements calls f for every index of a shape.
func elements(shape []int, f func(index []int)) {
	if slices.Contains(shape, 0) {
		return
	}
	index := make([]int, len(shape))
	for {
		f(index)
		d := len(shape) - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

// holds reports whether an element is in a box.
func holds(b Box, index []int) bool {
	for d, i := range index {
		if i < b.Start[d] || i >= b.Start[d]+b.Size[d] {
			return false
		}
	}
	return true
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error %q\n want %q", fmt.Sprint(err), want)
	}
}
