package mesh

import "testing"

func FuzzMesh(f *testing.F) {
	for _, s := range []string{"dp=2,tp=4", "dp=2,tp=2@[0,1,4,5]", "@[7]", "", "a=99999999999999999999",
		"dp=2@["} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := Parse(s)
		if err != nil {
			return
		}
		if back, err := Parse(m.String()); err != nil || !back.Equal(m) {
			t.Fatalf("%q prints as %q: %v", s, m, err)
		}
	})
}

func FuzzSpec(f *testing.F) {
	for _, s := range []string{"@[dp,_]+{tp}", "[dp.tp:(2)4,_]", "@[]", "@[dp?,?!1]+{a:max}-{x}", "@[_?]",
		"@[dp:(9999999)999999]"} {
		f.Add(s)
	}
	m := must(Parse("dp=2,tp=8,a=3"))
	f.Fuzz(func(t *testing.T, s string) {
		if sh, err := ParseSharding(s); err == nil {
			if back, err := ParseSharding(sh.String()); err != nil || !back.Equal(sh) {
				t.Fatalf("%q prints as %q: %v", s, sh, err)
			}
			_ = sh.Check(m, len(sh.Freedom))
		}
		spec, err := ParseSpec(s)
		if err != nil {
			return
		}
		if back, err := ParseSpec(spec.String()); err != nil || !back.Equal(spec) {
			t.Fatalf("%q prints as %q: %v", s, spec, err)
		}
		shape := make([]int, spec.Rank())
		for d := range shape {
			shape[d] = d*3 + 1
		}
		if l, err := spec.Layout(m, shape); err == nil {
			l.Replicas()
			_, _ = spec.Placements(m)
		}
	})
}

func FuzzPlacements(f *testing.F) {
	for _, s := range []string{"[R, S(1)]", "[P(max),P,S(-1)]", "[]", "[S(99999999999999999999)]"} {
		f.Add(s)
	}
	m := must(Parse("dp=2,tp=2"))
	f.Fuzz(func(t *testing.T, s string) {
		ps, err := ParsePlacements(s)
		if err != nil {
			return
		}
		if back, err := ParsePlacements(ps.String()); err != nil || !back.Equal(ps) {
			t.Fatalf("%q prints as %q: %v", s, ps, err)
		}
		if spec, err := ps.Spec(m, 2); err == nil {
			if _, err := spec.Placements(m); err != nil {
				t.Fatalf("%q: %v", s, err)
			}
		}
	})
}

func FuzzRule(f *testing.F) {
	for _, s := range []string{"mk,kn->mn", "(ab)c->abc; b=4", "ab*->ab*", "a,->a; a:max", "~", ")->(",
		"(ab)->(ba)", "aa->a", "ab->(ab)", "ab+->a", "ab->E&b"} {
		f.Add(s)
	}
	m := must(Parse("x=2,y=3"))
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := Rule(s).Parse(); err != nil {
			return
		}
		for _, shapes := range [][][]int{{{6}, {2, 3}}, {{2, 3}, {6}}, {{6}, {6}}, {{2, 3}, {2}}, {{0, 4}, {0}},
			{{5, 5}, {5}}} {
			p, err := Rule(s).Bind(shapes[:1], shapes[1:])
			if err != nil {
				continue
			}
			for _, text := range []string{"@[x.y]", "@[y,x]", "@[_,y.x]"} {
				pr, err := p.Project(m, 0, must(ParseSpec(text)))
				if err != nil {
					continue
				}
				a, _ := p.Resolve(m, []Projection{pr})
				if _, _, err := p.Specs(m, a); err != nil {
					t.Fatalf("%q %v %s: %v", s, shapes, text, err)
				}
			}
		}
	})
}
