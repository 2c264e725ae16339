package mesh

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestParseMesh(t *testing.T) {
	for _, c := range []struct{ text, want, err string }{
		{text: "dp=2,tp=4", want: "dp=2,tp=4"},
		{text: " dp = 2 , tp = 2 @ [0, 1, 4, 5] ", want: "dp=2,tp=2@[0,1,4,5]"},
		{text: "dp=3@[0,1,2]", want: "dp=3"},
		{text: "", want: ""},
		{text: "@[7]", want: "@[7]"},
		{text: "pp_1=1", want: "pp_1=1"},
		{text: "dp=2,dp=2", err: `mesh "dp=2,dp=2": mesh: axis dp is named twice: want distinct names`},
		{text: "dp=0", err: `mesh "dp=0": mesh: axis dp: got size 0, want at least 1`},
		{text: "dp=2@[1,1]",
			err: `mesh "dp=2@[1,1]": mesh dp=2: device 1 stands at two places: want each device once`},
		{text: "dp=2@[1]", err: `mesh "dp=2@[1]": mesh dp=2: got 1 devices, want 2`},
		{text: "dp=2@[-1,1]", err: `mesh "dp=2@[-1,1]": mesh dp=2: device id: got -1, want at least 0`},
		{text: "dp=2@[]", err: `mesh "dp=2@[]": device ids: got none, want one for each place`},
		{text: "2=dp", err: `mesh "2=dp": got "2" at byte 0, want an axis name`},
		{text: "dp=2;tp=2", err: `mesh "dp=2;tp=2": got ";" at byte 4, want ','`},
		{text: "dp=2,", err: `mesh "dp=2,": got the end, want an axis name`},
		{text: "a=1048576,b=2",
			err: `mesh "a=1048576,b=2": mesh: axis b of size 2: too many devices: want at most 1048576`},
	} {
		m, err := Parse(c.text)
		switch {
		case c.err != "":
			wantError(t, err, c.err)
		case err != nil:
			t.Errorf("%q: %v", c.text, err)
		case m.String() != c.want:
			t.Errorf("%q: got %q, want %q", c.text, m, c.want)
		}
	}
}

func TestMeshRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMesh(t, "mesh")
		if got := must(Parse(m.String())); !got.Equal(m) {
			t.Fatalf("%s parses as %s", m, got)
		}
		k := 0
		for c := range m.Coords() {
			d := must(m.At(c))
			if back, ok := m.Coord(d); !ok || !slices.Equal(back, c) || m.Devices()[k] != d || !m.Contains(d) {
				t.Fatalf("device %d at %v: coordinate %v", d, c, back)
			}
			k++
		}
		if k != m.Size() || m.Contains(-1) || m.Contains(1000) {
			t.Fatalf("%d positions of %s", k, m)
		}
	})
}

func TestGrid(t *testing.T) {
	m := must(Parse("dp=2,tp=3"))
	n := must(Parse("pp=2,dp=2,tp=2@[0,1,2,3,10,11,12,13]"))
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"slice dp", must(m.Slice("dp", 1)), "tp=3@[3,4,5]"},
		{"slice tp", must(m.Slice("tp", 0)), "dp=2@[0,3]"},
		{"slice to nothing", must(must(m.Slice("tp", 2)).Slice("dp", 1)), "@[5]"},
		{"front", must(m.Front("tp")), "tp=3,dp=2@[0,3,1,4,2,5]"},
		{"front of three", must(n.Front("tp")), "tp=2,pp=2,dp=2@[0,2,10,12,1,3,11,13]"},
		{"groups dp", must(m.Groups("dp")), "[[0 3] [1 4] [2 5]]"},
		{"groups tp", must(m.Groups("tp")), "[[0 1 2] [3 4 5]]"},
		{"groups dp tp", must(n.Groups("dp", "tp")), "[[0 1 2 3] [10 11 12 13]]"},
		{"groups tp dp", must(n.Groups("tp", "dp")), "[[0 2 1 3] [10 12 11 13]]"},
		{"groups of none", must(m.Groups()), "[[0] [1] [2] [3] [4] [5]]"},
		{"groups over parts", must(must(Parse("x=4")).GroupsOver(Axes{{"x", 1, 2}})), "[[0 2] [1 3]]"},
		{"group of", must(n.GroupOf(12, On("pp"))), "[2 12]"},
		{"subs", must(n.Subs("pp", "tp")), "[pp=2,tp=2@[0,1,10,11] pp=2,tp=2@[2,3,12,13]]"},
		{"merge", must(n.Merge("all", "dp", "tp")), "pp=2,all=4@[0,1,2,3,10,11,12,13]"},
		{"split", must(must(Parse("x=4,y=2")).Split("x", Axis{"a", 2}, Axis{"b", 2})), "a=2,b=2,y=2"},
		{"reshape", must(m.Reshape(Axis{"w", 6})), "w=6"},
		{"free", must(Parse("x=12,y=1,z=2")).Free(Axes{{"x", 2, 3}}), "x:(1)2.x:(6)2.z"},
		{"common", must(Parse("x=4,y=2")).Common(On("x", "y"), Axes{{"x", 1, 2}, {"x", 2, 2}, {"y", 0, 0}}),
			"x:(1)2.x:(2)2.y"},
		{"common part", must(Parse("x=4,y=2")).Common(On("x", "y"), Axes{{"x", 1, 2}, {"y", 0, 0}}), "x:(1)2"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
	if !n.Covers(must(n.Slice("pp", 1))) || m.Covers(n) {
		t.Error("Covers is wrong")
	}
}

func TestGridErrors(t *testing.T) {
	m := must(Parse("dp=2,tp=3"))
	for _, c := range []struct {
		want string
		err  error
	}{
		{`mesh dp=2,tp=3: no axis "pp"`, second(m.Slice("pp", 0))},
		{`mesh dp=2,tp=3: slice along tp: got position 3, want 0 to 2`, second(m.Slice("tp", 3))},
		{`axes tp.tp: tp is named and tp is named: want each part of an axis used at most once`,
			second(m.Groups("tp", "tp"))},
		{`mesh dp=2,tp=3: order of axes: got 1 names, want 2`, second(m.Order("dp"))},
		{`mesh dp=2,tp=3: merge into x: axes [tp dp] are not neighbours: put them in order first`,
			second(m.Merge("x", "tp", "dp"))},
		{`mesh dp=2,tp=3: split of axis tp: parts [{a 2}]: got size 2, want 3`,
			second(m.Split("tp", Axis{"a", 2}))},
		{`mesh dp=2,tp=3: cannot reshape to a=5: got 5 devices, want 6`, second(m.Reshape(Axis{"a", 5}))},
		{`mesh dp=2,tp=3: position [0 3]: got 3 along tp, want 0 to 2`, second(m.At([]int{0, 3}))},
		{`mesh dp=2,tp=3: position [0]: got 1 numbers, want 2`, second(m.At([]int{0}))},
		{`mesh dp=2,tp=3: no device 9`, second(m.GroupOf(9, On("dp")))},
		{`mesh dp=2,tp=3: sub-axis tp:(1)2: want a part of size 2 or more that divides tp of size 3`,
			second(m.Sub("tp", 1, 2))},
	} {
		wantError(t, c.err, c.want)
	}
}

func second[T any](_ T, err error) error { return err }

func TestGroupsTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMesh(t, "mesh")
		parts := drawParts(t, m)
		over := rapid.Permutation(parts).Draw(t, "axes")
		over = over[:rapid.IntRange(0, len(over)).Draw(t, "how many")]
		groups := must(m.GroupsOver(over))
		var all []int
		for _, g := range groups {
			if len(g) != m.Count(over) || !slices.Equal(g, must(m.GroupOf(g[len(g)-1], over))) {
				t.Fatalf("group %v over %s of %s", g, over, m)
			}
			all = append(all, g...)
		}
		devices := m.Devices()
		slices.Sort(devices)
		if slices.Sort(all); !slices.Equal(all, devices) {
			t.Fatalf("groups %v over %s of %s", groups, over, m)
		}
		if m.Count(m.Free(over))*m.Count(over) != m.Size() {
			t.Fatalf("%s of %s leaves %s", over, m, m.Free(over))
		}
	})
}

func TestAxes(t *testing.T) {
	m := must(Parse("x=12,y=2,u=1"))
	x, y := Sub{Axis: "x"}, Sub{Axis: "y"}
	major, minor, ok := m.Cut(x, 4)
	if fmt.Sprint(major, minor, ok) != "x:(1)4 x:(4)3 true" {
		t.Errorf("cut of x: %s %s %v", major, minor, ok)
	}
	if whole, ok := m.Join(major, minor); !ok || whole != x {
		t.Errorf("parts of x join to %s %v", whole, ok)
	}
	for _, k := range []int{0, 1, 5, 12, 24} {
		if _, _, ok := m.Cut(x, k); ok {
			t.Errorf("x is cut by %d", k)
		}
	}
	for _, c := range [][2]Sub{{minor, major}, {x, minor}, {major, y}, {major, major}} {
		if whole, ok := m.Join(c[0], c[1]); ok {
			t.Errorf("%v join to %s", c, whole)
		}
	}
	if !m.HasPrefix(Axes{x, y}, Axes{major}) || m.HasPrefix(Axes{major}, Axes{x}) ||
		m.HasPrefix(Axes{{"x", 1, 6}}, Axes{{"x", 1, 4}}) {
		t.Error("HasPrefix is wrong")
	}
	if !m.Overlap(x, Axes{y, minor}) || m.Overlap(major, Axes{y, minor}) || !m.Overlap(Sub{Axis: "u"}, On("u")) {
		t.Error("Overlap is wrong")
	}
	if a := must(ParseAxes("x:(1)4.y")); !a.Equal(Axes{major, y}) || m.Count(a) != 8 {
		t.Errorf("axes parse as %s", a)
	}
	if a, ok := m.Axis("x"); !ok || a.Size != 12 {
		t.Errorf("axis x: %v %v", a, ok)
	}
	wantError(t, second(ParseAxes("x,y")), `axes "x,y": got "," at byte 1, want the end`)
	wantError(t, second(m.Sub("z", 1, 2)), `mesh x=12,y=2,u=1: no axis "z"`)
}
