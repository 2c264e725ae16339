package mesh

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestLocalSizes(t *testing.T) {
	for _, c := range []struct {
		mesh, spec string
		shape      []int
		want       string
	}{
		{"x=2", "@[x]", []int{5}, "[0:3] [3:5]"},
		{"x=3", "@[x]", []int{5}, "[0:2] [2:4] [4:5]"},
		{"x=4", "@[x]", []int{5}, "[0:2] [2:4] [4:5] [5:5]"},
		{"x=4", "@[x]", []int{0}, "[0:0] [0:0] [0:0] [0:0]"},
		{"x=4", "@[x]", []int{1}, "[0:1] [1:1] [1:1] [1:1]"},
		{"x=8", "@[x]", []int{9}, "[0:2] [2:4] [4:6] [6:8] [8:9] [9:9] [9:9] [9:9]"},
		{"x=2,y=2", "@[x.y]", []int{5}, "[0:2] [2:3] [3:4] [4:5]"},
		{"x=2,y=2", "@[y.x]", []int{5}, "[0:2] [3:4] [2:3] [4:5]"},
		{"x=2,y=2", "@[y,x]", []int{3, 2}, "[0:2,0:1] [2:3,0:1] [0:2,1:2] [2:3,1:2]"},
		{"x=2,y=3", "@[x,y]", []int{3, 4}, "[0:2,0:2] [0:2,2:4] [0:2,4:4] [2:3,0:2] [2:3,2:4] [2:3,4:4]"},
		{"x=2,y=3", "@[x.y]", []int{7}, "[0:2] [2:4] [4:4] [4:5] [5:6] [6:7]"},
		{"x=2,y=2", "@[_]+{x}", []int{3}, "[0:3] [0:3] [0:3] [0:3]"},
		{"x=4", "@[x:(2)2,x:(1)2]", []int{2, 4}, "[0:1,0:2] [1:2,0:2] [0:1,2:4] [1:2,2:4]"},
		{"x=4", "@[x:(1)2.x:(2)2]", []int{5}, "[0:2] [2:3] [3:4] [4:5]"},
		{"x=2@[7,3]", "@[x]", []int{2}, "[0:1] [1:2]"},
		{"x=2", "@[]", nil, "[] []"},
	} {
		l := must(must(ParseSpec(c.spec)).Layout(must(Parse(c.mesh)), c.shape))
		got := ""
		for _, b := range l.Boxes() {
			got += " " + b.String()
		}
		if got != " "+c.want {
			t.Errorf("%s %s of %v: got %s, want %s", c.mesh, c.spec, c.shape, got[1:], c.want)
		}
	}
}

func TestLayoutAnswers(t *testing.T) {
	m := must(Parse("dp=2,tp=2,ep=2"))
	l := must(must(ParseSpec("@[tp,_]+{ep}")).Layout(m, []int{3, 4}))
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"pieces", l.Pieces(), "[{[0:2,0:4] [0 1 4 5]} {[2:3,0:4] [2 3 6 7]}]"},
		{"number of pieces", l.NumPieces(), "2"},
		{"replicas", l.Replicas(), "[[0 4] [1 5] [2 6] [3 7]]"},
		{"largest", l.MaxShape(), "[2 4]"},
		{"even", l.Even(), "false"},
		{"local", first(l.LocalShape(7)), "[1 4]"},
		{"within", must2(l.Box(7)).Within(Box{Start: []int{1, 0}}), "[1:2,0:4]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
	if _, ok := l.Box(8); ok {
		t.Error("device 8 has a box")
	}
	wantError(t, second(Split(nil).Layout(m, []int{-1})),
		"spec @[_]: shape [-1]: got dim 0 of size -1, want at least 0")
	empty := must(Split(On("dp")).Layout(m, []int{1}))
	if got := fmt.Sprint(empty.Pieces()); got != "[{[0:1] [0 1 2 3]}]" || empty.NumPieces() != 2 {
		t.Errorf("pieces of an uneven layout: %s", got)
	}
}

func first[T any](v T, _ bool) T { return v }

func must2[T any](v T, ok bool) T {
	if !ok {
		panic("not there")
	}
	return v
}

func TestBoxesTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, shape := drawMesh(t, "mesh"), drawShape(t)
		s := drawSpec(t, m, len(shape), drawParts(t, m))
		l := must(s.Layout(m, shape))
		shards := 1
		for _, a := range s.Dims {
			shards *= m.Count(a)
		}
		if l.NumPieces() != shards {
			t.Fatalf("%d pieces, want %d", l.NumPieces(), shards)
		}
		elements(shape, func(index []int) {
			n := 0
			for _, b := range l.Boxes() {
				if holds(b, index) {
					n++
				}
			}
			if n != m.Size()/shards {
				t.Fatalf("%s %s of %v: element %v is on %d devices, want %d", m, s, shape, index, n, m.Size()/shards)
			}
			n = 0
			for _, p := range l.Pieces() {
				if holds(p.Box, index) {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%s %s of %v: element %v is in %d pieces", m, s, shape, index, n)
			}
		})
		largest := l.MaxShape()
		for d, b := range l.Boxes() {
			for k := range b.Size {
				if b.Size[k] > largest[k] {
					t.Fatalf("device %d holds %v of at most %v", d, b, largest)
				}
			}
		}
		for _, g := range l.Replicas() {
			for _, d := range g {
				if !must2(l.Box(d)).Equal(must2(l.Box(g[0]))) {
					t.Fatalf("%s %s of %v: replicas %v differ", m, s, shape, g)
				}
			}
		}
	})
}

// Gathering over the last axis of a dim, in group order, gives the layout without that axis.
func TestNestedGather(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, shape := drawMesh(t, "mesh"), drawShape(t)
		s := drawSpec(t, m, len(shape), drawParts(t, m))
		l := must(s.Layout(m, shape))
		for d, axes := range s.Dims {
			if len(axes) == 0 {
				continue
			}
			last := len(axes) - 1
			outer := s.Clone()
			outer.Dims[d] = slices.Clone(axes[:last])
			gathered := must(outer.Layout(m, shape))
			for _, g := range must(m.GroupsOver(axes[last:])) {
				want := must2(gathered.Box(g[0]))
				at := want.Start[d]
				for _, device := range g {
					b := must2(l.Box(device))
					if b.Start[d] != at {
						t.Fatalf("%s %s of %v: device %d has %s, want a start at %d", m, s, shape, device, b, at)
					}
					at += b.Size[d]
				}
				if at != want.Start[d]+want.Size[d] {
					t.Fatalf("%s %s of %v: group %v ends at %d, want %s", m, s, shape, g, at, want)
				}
			}
		}
	})
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		mesh, spec     string
		n              int
		toMesh, toSpec string
		toN            int
		want           bool
	}{
		{"x=4", "@[x]", 8, "x=4", "@[x]", 8, true},
		{"x=4", "@[x]", 8, "x=4", "@[x:(1)2.x:(2)2]", 8, true},
		{"x=4", "@[x]", 5, "x=4", "@[x:(1)2.x:(2)2]", 5, false},
		{"x=2,u=1", "@[x]", 4, "x=2,u=1", "@[u.x]", 4, true},
		{"x=4", "@[x]", 8, "x=4", "@[x]", 9, false},
		{"x=2", "@[x]", 4, "x=2@[1,0]", "@[x]", 4, false},
		{"x=2", "@[_]", 4, "x=2", "@[_]+{x}", 4, false},
		{"x=2", "@[_]+{x:max}", 4, "x=2", "@[_]+{x}", 4, false},
	} {
		a := must(must(ParseSpec(c.spec)).Layout(must(Parse(c.mesh)), []int{c.n}))
		b := must(must(ParseSpec(c.toSpec)).Layout(must(Parse(c.toMesh)), []int{c.toN}))
		if a.Same(b) != c.want || b.Same(a) != c.want {
			t.Errorf("%v: got %v", c, !c.want)
		}
	}
}
