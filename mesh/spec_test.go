package mesh

import (
	"testing"

	"pgregory.net/rapid"
)

func TestParseSpec(t *testing.T) {
	for _, c := range []struct{ text, want, err string }{
		{text: "@[dp,_]+{tp}", want: "@[dp,_]+{tp}"},
		{text: "[ dp . tp , _ ]", want: "@[dp.tp,_]"},
		{text: "@[]", want: "@[]"},
		{text: "@[]+{}", want: "@[]"},
		{text: "@[tp:(1)2,tp:(2)2]+{dp:max,a:(2)4:mean}", want: "@[tp:(1)2,tp:(2)2]+{a:(2)4:mean,dp:max}"},
		{text: "@[_]+{tp:sum}", want: "@[_]+{tp}"},
		{text: "@[dp", err: `spec "@[dp": got the end, want ',' or ']'`},
		{text: "@[dp,]", err: `spec "@[dp,]": got "]" at byte 5, want an axis name`},
		{text: "@[dp..tp]", err: `spec "@[dp..tp]": got "." at byte 5, want an axis name`},
		{text: "@[tp:(0)2]",
			err: `spec "@[tp:(0)2]": sub-axis tp:(0)2: want (pre)size with pre at least 1 and size at least 2`},
		{text: "@[_]+{tp:avg}",
			err: `spec "@[_]+{tp:avg}": reduction: got "avg", want sum, mean, max, min, prod, any, all`},
		{text: "@[dp?]", err: `spec "@[dp?]": open dims and priorities: want a spec, which has none`},
		{text: "@[_]-{dp}",
			err: `spec "@[_]-{dp}": -{dp}: want a spec, in which axes that are not named hold copies`},
		{text: "@[_]x", err: `spec "@[_]x": got "x" at byte 4, want the end`},
		{text: "@[tp:max]", err: `spec "@[tp:max]": got ":" at byte 4, want ',' or ']'`},
	} {
		s, err := ParseSpec(c.text)
		switch {
		case c.err != "":
			wantError(t, err, c.err)
		case err != nil:
			t.Errorf("%q: %v", c.text, err)
		case s.String() != c.want:
			t.Errorf("%q: got %q, want %q", c.text, s, c.want)
		}
	}
}

func TestSpecCheck(t *testing.T) {
	m := must(Parse("dp=2,tp=12"))
	for _, c := range []struct{ text, want string }{
		{"@[dp,_]", ""},
		{"@[tp:(1)2,tp:(4)3]+{tp:(2)2}", ""},
		{"@[dp]", "spec @[dp]: got 1 dims, want 2: those of the tensor"},
		{"@[dp,_,_]", "spec @[dp,_,_]: got 3 dims, want 2: those of the tensor"},
		{"@[pp,_]", `spec @[pp,_]: mesh dp=2,tp=12: no axis "pp"`},
		{"@[dp,dp]",
			"spec @[dp,dp]: dp splits dim 0 and dp splits dim 1: want each part of an axis used at most once"},
		{"@[_,dp]+{dp}",
			"spec @[_,dp]+{dp}: dp splits dim 1 and dp is partial: want each part of an axis used at most once"},
		{"@[tp,tp:(1)2]",
			"spec @[tp,tp:(1)2]: tp splits dim 0 and tp:(1)2 splits dim 1: want each part of an axis used at most " +
				"once"},
		{"@[tp:(1)4,tp:(2)2]",
			"spec @[tp:(1)4,tp:(2)2]: tp:(1)4 splits dim 0 and tp:(2)2 splits dim 1: want each part of an axis " +
				"used at most once"},
		{"@[tp:(1)2,tp:(3)2]",
			"spec @[tp:(1)2,tp:(3)2]: tp:(1)2 splits dim 0 and tp:(3)2 splits dim 1: want each part of an axis " +
				"used at most once"},
		{"@[tp:(1)5,_]",
			"spec @[tp:(1)5,_]: mesh dp=2,tp=12: sub-axis tp:(1)5: want a part of size 2 or more that divides tp " +
				"of size 12"},
		{"@[tp:(1)12,_]", "spec @[tp:(1)12,_]: mesh dp=2,tp=12: sub-axis tp:(1)12 is all of its axis: write tp"},
	} {
		err := must(ParseSpec(c.text)).Check(m, 2)
		if c.want != "" {
			wantError(t, err, c.want)
		} else if err != nil {
			t.Error(err)
		}
	}
}

func TestSpecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMesh(t, "mesh")
		s := drawSpec(t, m, rapid.IntRange(0, 3).Draw(t, "rank"), drawParts(t, m))
		if err := s.Check(m, s.Rank()); err != nil {
			t.Fatal(err)
		}
		if got := must(ParseSpec(s.String())); !got.Equal(s) {
			t.Fatalf("%s parses as %s", s, got)
		}
		sh := Closed(s)
		for d := range sh.Freedom {
			sh.Freedom[d] = Freedom{rapid.Bool().Draw(t, "open"), rapid.IntRange(0, 2).Draw(t, "priority")}
		}
		sh.Replicated = m.Free(s.Used())
		if err := sh.Check(m, s.Rank()); err != nil {
			t.Fatal(err)
		}
		if got := must(ParseSharding(sh.String())); !got.Equal(sh) {
			t.Fatalf("%s parses as %s", sh, got)
		}
	})
}

func TestSimplifyKeepsPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, shape := drawMesh(t, "mesh"), drawShape(t)
		s := drawSpec(t, m, len(shape), drawParts(t, m))
		simple := s.Simplify(m, shape)
		if !must(s.Layout(m, shape)).Same(must(simple.Layout(m, shape))) {
			t.Fatalf("%s of %v becomes %s", s, shape, simple)
		}
	})
}

func TestSimplify(t *testing.T) {
	m := must(Parse("x=4,y=2"))
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"@[x:(1)2.x:(2)2]", 8, "@[x]"},
		{"@[x:(1)2.x:(2)2]", 6, "@[x:(1)2.x:(2)2]"},
		{"@[x:(2)2.x:(1)2]", 8, "@[x:(2)2.x:(1)2]"},
		{"@[y.x:(1)2.x:(2)2]", 8, "@[y.x]"},
		{"@[y.x:(1)2.x:(2)2]", 12, "@[y.x:(1)2.x:(2)2]"},
	} {
		if got := must(ParseSpec(c.text)).Simplify(m, []int{c.n}); got.String() != c.want {
			t.Errorf("%s of %d: got %s, want %s", c.text, c.n, got, c.want)
		}
	}
}

func TestParsePlacements(t *testing.T) {
	for _, c := range []struct{ text, want, err string }{
		{text: "[R, S(1)]", want: "[R, S(1)]"},
		{text: "[P(max),P,S(-1)]", want: "[P(max), P(sum), S(-1)]"},
		{text: "[]", want: "[]"},
		{text: "[Q]", err: `placements "[Q]": got "Q" at byte 1, want R, S(dim) or P(reduction)`},
		{text: "[S]", err: `placements "[S]": got "]" at byte 2, want '('`},
		{text: "[S(x)]", err: `placements "[S(x)]": got "x" at byte 3, want a dim`},
		{text: "[P(avg)]",
			err: `placements "[P(avg)]": reduction: got "avg", want sum, mean, max, min, prod, any, all`},
	} {
		ps, err := ParsePlacements(c.text)
		switch {
		case c.err != "":
			wantError(t, err, c.err)
		case err != nil:
			t.Errorf("%q: %v", c.text, err)
		case ps.String() != c.want:
			t.Errorf("%q: got %q, want %q", c.text, ps, c.want)
		}
	}
}

func TestPlacementsToSpec(t *testing.T) {
	m := must(Parse("dp=2,tp=2"))
	for _, c := range []struct{ text, want, err string }{
		{text: "[S(0), P]", want: "@[dp,_]+{tp}"},
		{text: "[S(0), S(0)]", want: "@[dp.tp,_]"},
		{text: "[P(max), S(-1)]", want: "@[_,tp]+{dp:max}"},
		{text: "[R, S(2)]", err: "placements [R, S(2)]: axis tp splits dim 2: the tensor has 2 dims"},
		{text: "[R, S(-3)]", err: "placements [R, S(-3)]: axis tp splits dim -3: the tensor has 2 dims"},
		{text: "[R]", err: "placements [R]: got 1, want 2: one for each axis of dp=2,tp=2"},
	} {
		s, err := must(ParsePlacements(c.text)).Spec(m, 2)
		if c.err != "" {
			wantError(t, err, c.err)
		} else if err != nil || s.String() != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.text, s, err, c.want)
		}
	}
	for _, c := range []struct{ text, err string }{
		{"@[tp.dp,_]", "spec @[tp.dp,_]: dim 0: placements cannot say tp.dp: want the order of dp=2,tp=2"},
		{"@[pp,_]", `spec @[pp,_]: mesh dp=2,tp=2: no axis "pp"`},
	} {
		wantError(t, second(must(ParseSpec(c.text)).Placements(m)), c.err)
	}
	x := must(Parse("x=4"))
	wantError(t, second(must(ParseSpec("@[x:(1)2]")).Placements(x)),
		"spec @[x:(1)2]: dim 0: placements cannot say x:(1)2: want whole axes")
	wantError(t, second(must(ParseSpec("@[_]+{x:(1)2}")).Placements(x)),
		"spec @[_]+{x:(1)2}: placements cannot say that x:(1)2 is partial: want whole axes")
}

func TestPlacementsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, rank := drawMesh(t, "mesh"), rapid.IntRange(1, 3).Draw(t, "rank")
		ps := make(Placements, m.NumAxes())
		for i := range ps {
			switch d := rapid.IntRange(-2, rank-1).Draw(t, "dim"); d {
			case -2:
			case -1:
				ps[i] = Partial(Reduce(rapid.IntRange(0, 6).Draw(t, "reduce")))
			default:
				ps[i] = Shard(d)
			}
		}
		if got := must(ParsePlacements(ps.String())); !got.Equal(ps) {
			t.Fatalf("%s parses as %s", ps, got)
		}
		if got := must(must(ps.Spec(m, rank)).Placements(m)); !got.Equal(ps) {
			t.Fatalf("%s on %s comes back as %s", ps, m, got)
		}
	})
}

func TestPlacementAnswers(t *testing.T) {
	d, isShard := must(ParsePlacement("S(1)")).Dim()
	r, isPartial := must(ParsePlacement("P(min)")).Reduce()
	if d != 1 || !isShard || r != Min || !isPartial || !Replicate().Replicated() || Shard(0).Replicated() {
		t.Errorf("placements answer %d %v, %s %v", d, isShard, r, isPartial)
	}
	wantError(t, second(ParsePlacement("S(1) R")), `placement "S(1) R": got "R" at byte 5, want the end`)
}

func TestSharding(t *testing.T) {
	m := must(Parse("dp=2,tp=2"))
	if got := Open(Split(On("dp"), nil)).String(); got != "@[dp?,?]" {
		t.Errorf("open dims print as %s", got)
	}
	if !Whole(2).IsWhole() || Whole(0).With(Pending{Sub{Axis: "dp"}, Max}).IsWhole() {
		t.Error("IsWhole is wrong")
	}
	for _, c := range []struct{ text, err string }{
		{"@[dp]-{dp}",
			"sharding @[dp]-{dp}: dp splits dim 0 and dp is replicated: want each part of an axis used at most once"},
		{"@[dp,_]", "spec @[dp,_]: got 2 dims, want 1: those of the tensor"},
	} {
		wantError(t, must(ParseSharding(c.text)).Check(m, 1), c.err)
	}
	wantError(t, Sharding{Spec: Whole(1)}.Check(m, 1), "sharding @[_]: freedom of 0 dims: want 1")
	wantError(t, second(ParseSharding("@[_!-1]")), `sharding "@[_!-1]": priority: got -1, want at least 0`)
	wantError(t, second(ParseSharding("@[_]-dp")), `sharding "@[_]-dp": got "d" at byte 5, want '{'`)
}
