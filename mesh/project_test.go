package mesh

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The cases with compound dims are facts of Shardy's propagation tests.
func TestProject(t *testing.T) {
	for _, c := range []struct {
		rule       Rule
		in, out    []int
		mesh, spec string
		want       string
	}{
		{"ab->a", []int{4, 4}, []int{4}, "x=2,y=2", "@[y,x]", "a=y b=x"},
		{"(ab)->ab", []int{8}, []int{2, 4}, "a=2,b=2", "@[b.a]", "a=b b=a"},
		{"(ab)->ab", []int{16}, []int{4, 4}, "a=2,b=2", "@[b.a]", "a=b.a"},
		{"(ab)->ab", []int{8}, []int{2, 4}, "a=4,b=2", "@[a]", "a=a:(1)2 b=a:(2)2"},
		{"(ab)->ab", []int{32}, []int{8, 4}, "a=16,b=2", "@[a]", "a=a:(1)8 b=a:(8)2"},
		{"(abc)->abc", []int{32}, []int{2, 4, 4}, "a=16", "@[a]", "a=a:(1)2 b=a:(2)4 c=a:(8)2"},
		{"(ab)->ab", []int{8}, []int{2, 4}, "a=6", "@[a]", "a=a:(1)2 b=a:(2)3"},
		{"(ab)->ab", []int{8}, []int{2, 4}, "a=16", "@[a]", "a=a:(1)2 b=a:(2)8"},
		{"(ab)->ab", []int{8}, []int{2, 4}, "a=3", "@[a]", " stuck at a: a"},
		{"(ab)->ab", []int{32}, []int{8, 4}, "a=2,b=3", "@[a.b]", "a=a stuck at a: b"},
		{"(ab)->ab", []int{32}, []int{4, 8}, "a=6", "@[a]", "a=a:(1)2 stuck at a: a:(2)3"},
		{"(ab)->a.b", []int{8}, []int{2, 1, 4}, "a=1,b=2,c=1", "@[a.b.c]", "a=a.b.c"},
		{"a.->a", []int{4, 1}, []int{4}, "x=2,y=2", "@[x,y]", "a=x bare: y"},
		{"~", []int{4, 6}, []int{4}, "x=2,y=2", "@[_,y]", " bare: y"},
	} {
		m := must(Parse(c.mesh))
		p := must(c.rule.Bind([][]int{c.in}, [][]int{c.out}))
		pr := must(p.Project(m, 0, must(ParseSpec(c.spec))))
		got := p.Text(pr.Axes)
		for f, rest := range pr.Rest {
			if len(rest) > 0 {
				got += fmt.Sprintf(" stuck at %c: %s", p.Factors[f].Name, rest)
			}
		}
		if bare := slices.Concat(pr.Bare...); len(bare) > 0 {
			got += " bare: " + bare.String()
		}
		// Sizes of 0 divide by everything, so all parts join again.
		if back := p.Unproject(m, 0, pr).Simplify(m, []int{0, 0}[:len(c.in)]); back.String() != c.spec {
			t.Errorf("%s: %s comes back as %s", c.rule, c.spec, back)
		}
		if got != c.want {
			t.Errorf("%s %v on %s %s: got %q, want %q", c.rule, c.in, c.mesh, c.spec, got, c.want)
		}
	}
}

func TestResolve(t *testing.T) {
	mm := [][]int{{8, 8}, {8, 8}, {8, 8}}
	for _, c := range []struct {
		rule     Rule
		in       int
		shapes   [][]int
		specs    []string
		want     string
		conflict string
		out      string
	}{
		{"mk,kn->mn", 2, mm, []string{"@[dp,_]", "@[_,tp]"}, "m=dp n=tp", "[]", "[@[dp,tp]]"},
		{"mk,kn->mn", 2, mm, []string{"@[dp,tp]", "@[tp,_]"}, "m=dp k=tp", "[]", "[@[dp,_]+{tp}]"},
		{"mk,kn->mn", 2, mm, []string{"@[_,dp.tp]", "@[dp,_]"}, "k=dp.tp", "[]", "[@[_,_]+{dp,tp}]"},
		{"mk,kn->mn", 2, mm, []string{"@[dp,_]", "@[dp,_]"}, "m=dp",
			"[factor k: cannot be split by dp: the axis splits another factor: kept _]", "[@[dp,_]]"},
		{"mk,kn->mn", 2, mm, []string{"@[_,dp]", "@[tp,_]"}, "k=dp",
			"[factor k of operand 1: cannot be split by tp: another tensor splits it differently: kept dp]",
			"[@[_,_]+{dp}]"},
		{"ab,ab->ab", 2, mm, []string{"@[_,dp]", "", "@[tp,_]"}, "a=tp b=dp", "[]", "[@[tp,dp]]"},
		{"ab*->ab*", 1, mm[:2], []string{"@[dp,tp]"}, "a=dp",
			"[factor b: cannot be split by tp: it must be whole: kept _]", "[@[dp,_]]"},
		{"ab->a; b:max", 1, [][]int{{8, 8}, {8}}, []string{"@[_,tp]"}, "b=tp", "[]", "[@[_]+{tp:max}]"},
		{"ab->a; b:mean", 1, [][]int{{8, 6}, {8}}, []string{"@[_,tp]"}, "b=tp:(1)2",
			"[factor b of result 0: cannot be split by tp:(2)2: they do not divide it: kept tp:(1)2]",
			"[@[_]+{tp:(1)2:mean}]"},
		{"aa->a", 1, [][]int{{8, 8}, {8}}, []string{"@[dp,_]"}, "",
			"[factor a of operand 0: cannot be split by dp: it must be whole: kept _]", "[@[_]]"},
		{"ab->", 1, [][]int{{8, 8}, {}}, []string{"@[tp:(1)2,tp:(2)2]"}, "a=tp:(1)2 b=tp:(2)2", "[]", "[@[]+{tp}]"},
		{"ab->; b:max", 1, [][]int{{8, 8}, {}}, []string{"@[tp:(1)2,tp:(2)2]"}, "a=tp:(1)2 b=tp:(2)2", "[]",
			"[@[]+{tp:(1)2,tp:(2)2:max}]"},
		{"a,b->", 2, [][]int{{8}, {8}, {}}, []string{"@[dp]", "@[dp]"}, "a=dp",
			"[factor b: cannot be split by dp: the axis splits another factor: kept _]", "[@[]+{dp}]"},
		{"ab->(ab)", 1, [][]int{{4, 4}, {16}}, []string{"@[dp,tp]"}, "a=dp",
			"[factor b of result 0: cannot be split by tp: the factors above it in its dim are not split to the " +
				"end: kept _]", "[@[dp]]"},
		{"ab->(ab)", 1, [][]int{{2, 4}, {8}}, []string{"@[dp,tp]"}, "a=dp b=tp", "[]", "[@[dp.tp]]"},
		{"ab->(ab)", 1, [][]int{{4, 4}, {16}}, []string{"@[dp.tp,_]"}, "a=dp.tp:(1)2",
			"[factor a of result 0: cannot be split by tp:(2)2: they do not divide it: kept dp.tp:(1)2]",
			"[@[dp.tp:(1)2]]"},
		{"(ab)c->a(bc)", 1, [][]int{{8, 4}, {2, 16}}, []string{"@[dp.tp,_]"}, "a=dp b=tp", "[]", "[@[dp,tp]]"},
		{"~", 1, [][]int{{8, 4}, {2}}, []string{"@[dp,_]"}, "",
			"[a dim without factors of operand 0: cannot be split by dp: it must be whole: kept _]", "[@[_]]"},
	} {
		m := must(Parse("dp=2,tp=4"))
		p := must(c.rule.Bind(c.shapes[:c.in], c.shapes[c.in:]))
		tensors := make([]Projection, len(c.specs))
		for i, s := range c.specs {
			if s != "" {
				tensors[i] = must(p.Project(m, i, must(ParseSpec(s))))
			}
		}
		a, conflicts := p.Resolve(m, tensors)
		if got := p.Text(a); got != c.want || fmt.Sprint(conflicts) != c.conflict {
			t.Errorf("%s %v: got %q %v, want %q %s", c.rule, c.specs, got, conflicts, c.want, c.conflict)
			continue
		}
		if _, out, err := p.Specs(m, a); err != nil || fmt.Sprint(out) != c.out {
			t.Errorf("%s %v: got results %v %v, want %s", c.rule, c.specs, out, err, c.out)
		}
	}
}

// The cases are facts of Shardy's propagation tests: merging dims keeps what stays contiguous.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		in, out          []int
		mesh, spec, want string
	}{
		{[]int{2, 4}, []int{8}, "a=2,b=2", "@[a,_]", "@[a]"},
		{[]int{2, 4}, []int{8}, "a=2,b=2", "@[a,b]", "@[a.b]"},
		{[]int{4, 4}, []int{16}, "a=2,b=2", "@[a,b]", "@[a]"},
		{[]int{2, 4}, []int{8}, "a=2,b=3", "@[a,b]", "@[a.b]"},
		{[]int{2, 4}, []int{8}, "a=3", "@[a,_]", "@[_]"},
		{[]int{6, 4}, []int{24}, "a=3,b=3", "@[a.b,_]", "@[a]"},
		{[]int{4, 4}, []int{16}, "a=4,b=2,c=2", "@[b.a,c]", "@[b.a:(1)2.c]"},
	} {
		m := must(Parse(c.mesh))
		p := must(Rule("ab->(ab)").Bind([][]int{c.in}, [][]int{c.out}))
		pr := must(p.Project(m, 0, must(ParseSpec(c.spec))))
		if got := p.Spec(m, 1, p.Fit(m, 1, pr.Axes)).With(); got.String() != c.want {
			t.Errorf("%v %s on %s: got %s, want %s", c.in, c.spec, c.mesh, got, c.want)
		}
		if got := p.Spec(m, 0, p.Fit(m, 0, pr.Axes)); got.String() != c.spec {
			t.Errorf("%v %s on %s: got %s for the operand", c.in, c.spec, c.mesh, got)
		}
	}
}

func TestSpecsErrors(t *testing.T) {
	m := must(Parse("dp=2,tp=2"))
	p := must(Rule("ab->a").Bind([][]int{{4, 4}}, [][]int{{4}}))
	for _, c := range []struct {
		a    Assignment
		want string
	}{
		{Assignment{nil}, "assignment: got 1 factors, want 2"},
		{Assignment{On("dp"), On("dp")},
			"assignment a=dp b=dp: factor b: cannot be split by dp: the axis splits another factor: kept _"},
		{Assignment{On("pp"), nil}, `assignment a=pp: factor a: axes pp: mesh dp=2,tp=2: no axis "pp"`},
	} {
		_, _, err := p.Specs(m, c.a)
		wantError(t, err, c.want)
	}
	wantError(t, second(p.Project(m, 0, Whole(1))), "spec @[_]: got 1 dims, want 2: those of the tensor")
	wantError(t, second(p.Ranges(m, make(Assignment, 2), 4)), "mesh dp=2,tp=2: no device 4")
}

func TestMismatched(t *testing.T) {
	m := must(Parse("dp=2,tp=4"))
	p := must(Rule("mk,kn->mn").Bind([][]int{{8, 8}, {8, 8}}, [][]int{{8, 8}}))
	a := Assignment{On("dp"), On("tp"), nil}
	for _, c := range []struct {
		specs []string
		want  string
	}{
		{[]string{"@[dp,tp]", "@[tp,_]"}, "[]"},
		{[]string{"@[dp,tp]", "@[tp:(1)2.tp:(2)2,_]", "@[dp,_]+{tp}"}, "[]"},
		{[]string{"@[dp,_]+{tp}", "@[tp,_]", "@[dp,_]"}, "[0 2]"},
	} {
		var specs []Spec
		for _, s := range c.specs {
			specs = append(specs, must(ParseSpec(s)))
		}
		if got := fmt.Sprint(p.Mismatched(m, a, specs)); got != c.want {
			t.Errorf("%v: got %s, want %s", c.specs, got, c.want)
		}
	}
	if !p.Reduced(1) || p.Reduced(0) || p.PassThrough(0) || !p.Has(2, 0) {
		t.Error("factors of a product are misjudged")
	}
}

var lawRules = []struct {
	rule   Rule
	in     int
	shapes [][]int
}{
	{"mk,kn->mn", 2, [][]int{{5, 4}, {4, 3}, {5, 3}}},
	{"ab->a; b:mean", 1, [][]int{{5, 6}, {5}}},
	{"(ab)c->abc", 1, [][]int{{12, 5}, {4, 3, 5}}},
	{"a(bc)->(ab)c", 1, [][]int{{2, 12}, {6, 4}}},
	{"(abc)->(ab)c", 1, [][]int{{16}, {8, 2}}},
	{"(ab)->(ab); b=5", 1, [][]int{{10}, {10}}},
	{"a.c,b.->abc", 2, [][]int{{3, 1, 2}, {5, 1}, {3, 5, 2}}},
	{"ab*->ab*,a", 1, [][]int{{5, 4}, {5, 4}, {5}}},
	{"ab->ab", 1, [][]int{{0, 1}, {0, 1}}},
	{"->ab", 0, [][]int{{5, 3}}},
}

// The law of rules: under a legal assignment, every device holds of every tensor exactly the elements whose
// factors fall to it, and the devices together cover the op's iteration space, each point on as many devices
// as axes are free.
func TestAssignmentLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(lawRules).Draw(t, "rule")
		p := must(c.rule.Bind(c.shapes[:c.in], c.shapes[c.in:]))
		m := drawMesh(t, "mesh")
		want := make(Assignment, len(p.Factors))
		for _, x := range rapid.Permutation(drawParts(t, m)).Draw(t, "order") {
			if f := rapid.IntRange(-1, len(want)-1).Draw(t, "factor of "+x.String()); f >= 0 {
				want[f] = append(want[f], x)
			}
		}
		a, _ := p.Resolve(m, []Projection{{Axes: want, Rest: make([]Axes, len(want))}})
		if c := p.Check(m, a); len(c) > 0 {
			t.Fatalf("%s on %s: resolved to %s: %v", p.Text(want), m, p.Text(a), c)
		}
		in, out, err := p.Specs(m, a)
		if err != nil {
			t.Fatal(err)
		}
		for tensor, s := range slices.Concat(in, out) {
			checkTensor(t, p, m, a, tensor, s)
		}
		checkCover(t, p, m, a)
	})
}

func checkTensor(t *rapid.T, p *Parsed, m *Mesh, a Assignment, tensor int, s Spec) {
	l := must(s.Layout(m, p.shapes[tensor]))
	for device, box := range l.Boxes() {
		ranges := must(p.Ranges(m, a, device))
		in, out, err := p.Local(m, a, device)
		if err != nil || !slices.Equal(slices.Concat(in, out)[tensor], box.Size) {
			t.Fatalf("%s: %s: local shape %v %v %v, want %v", p.Text(a), p.Name(tensor), in, out, err, box.Size)
		}
		elements(p.shapes[tensor], func(index []int) {
			mine := true
			for d, factors := range p.Tensor(tensor) {
				i := index[d]
				for k := len(factors) - 1; k >= 0; k-- {
					f := p.Index(factors[k])
					at := i % p.Factors[f].Size
					i /= p.Factors[f].Size
					mine = mine && at >= ranges[f].Start && at < ranges[f].Start+ranges[f].Size
				}
			}
			if mine != holds(box, index) {
				t.Fatalf("%s on %s: %s %s: device %d has %s: element %v", p.Text(a), m, p.Name(tensor), s, device, box,
					index)
			}
		})
	}
}

func checkCover(t *rapid.T, p *Parsed, m *Mesh, a Assignment) {
	space, used := make([]int, len(a)), 1
	for f := range a {
		space[f] = p.Factors[f].Size
		used *= m.Count(a[f])
	}
	seen := map[string]int{}
	for _, device := range m.Devices() {
		box := Box{}
		for _, r := range must(p.Ranges(m, a, device)) {
			box = box.extend(r.Start, r.Size)
		}
		elements(space, func(point []int) {
			if holds(box, point) {
				seen[fmt.Sprint(point)]++
			}
		})
	}
	elements(space, func(point []int) {
		if n := seen[fmt.Sprint(point)]; n != m.Size()/used {
			t.Fatalf("%s on %s: point %v is on %d devices, want %d", p.Text(a), m, point, n, m.Size()/used)
		}
	})
}

// Projecting a legal assignment's Specs gives the assignment back, without a conflict.
func TestProjectBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(lawRules).Draw(t, "rule")
		p := must(c.rule.Bind(c.shapes[:c.in], c.shapes[c.in:]))
		m := drawMesh(t, "mesh")
		tensors := make([]Projection, p.NumTensors())
		for i := range tensors {
			tensors[i] = must(p.Project(m, i, drawSpec(t, m, len(p.Tensor(i)), drawParts(t, m))))
		}
		a, _ := p.Resolve(m, tensors)
		in, out, err := p.Specs(m, a)
		if err != nil {
			t.Fatal(err)
		}
		specs := slices.Concat(in, out)
		for i, s := range specs {
			tensors[i] = must(p.Project(m, i, s))
		}
		b, conflicts := p.Resolve(m, tensors)
		if len(conflicts) > 0 || len(p.Mismatched(m, b, specs)) > 0 { // but axes of size one may go elsewhere
			t.Fatalf("%s: %s comes back as %s: %v: %v", c.rule, p.Text(a), p.Text(b), conflicts, specs)
		}
	})
}
