package shard

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/mesh"
)

// TestRefs: lists by number are what mesh says of lists by name.
func TestRefs(t *testing.T) {
	m, _ := mesh.Parse("a=12,b=4,c=1")
	g := newGrid(m)
	list := func(t *rapid.T) mesh.Axes {
		all := []string{"a", "b", "c", "a:(1)2", "a:(2)2", "a:(2)3", "a:(4)3", "a:(1)3", "a:(3)4", "a:(6)2",
			"b:(1)2", "b:(2)2"}
		var out mesh.Axes
		for range rapid.IntRange(0, 3).Draw(t, "axes") {
			a, _ := mesh.ParseAxes(rapid.SampledFrom(all).Draw(t, "axis"))
			if !m.Overlap(a[0], out) {
				out = append(out, a...)
			}
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		x, y := list(t), list(t)
		if got, want := g.names(common(g.refs(x), g.refs(y))), m.Common(x, y); m.Count(got) != m.Count(want) {
			t.Fatalf("common of %v and %v: got %v, want %v", x, y, got, want)
		}
		if got, want := hasPrefix(g.refs(x), g.refs(y)), m.HasPrefix(x, y); got != want && m.Count(y) > 1 {
			t.Fatalf("%v begins with %v: got %v, want %v", x, y, got, want)
		}
		for _, s := range x {
			r, ok := g.refs(mesh.Axes{s})[0].clear(g.refs(y))
			if whole := ok && r == g.refs(mesh.Axes{s})[0]; whole == m.Overlap(s, y) {
				t.Fatalf("%v beside %v: got %v %v", s, y, r, ok)
			}
			if ok && m.Overlap(g.names(refs{r})[0], y) {
				t.Fatalf("%v beside %v: %v overlaps", s, y, g.names(refs{r}))
			}
		}
	})
}
