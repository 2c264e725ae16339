package mesh

import "testing"

func TestRuleBind(t *testing.T) {
	for _, c := range []struct {
		rule    Rule
		in, out [][]int
		sizes   map[byte]int
		bad     bool
	}{
		{rule: "mk,kn->mn", in: [][]int{{2, 3}, {3, 4}}, out: [][]int{{2, 4}},
			sizes: map[byte]int{'m': 2, 'k': 3, 'n': 4}},
		{rule: "(ab)c->abc", in: [][]int{{6, 5}}, out: [][]int{{2, 3, 5}}, sizes: map[byte]int{'a': 2, 'b': 3}},
		{rule: "(ab)->(ab); b=4", in: [][]int{{8}}, out: [][]int{{8}}, sizes: map[byte]int{'a': 2, 'b': 4}},
		{rule: "a.c,b.->abc", in: [][]int{{5, 1, 7}, {6, 1}}, out: [][]int{{5, 6, 7}}, sizes: map[byte]int{'b': 6}},
		{rule: "->ab", out: [][]int{{5, 6}}, sizes: map[byte]int{'a': 5}},
		{rule: "a,->a", in: [][]int{{5}, {}}, out: [][]int{{5}}, sizes: map[byte]int{'a': 5}},
		{rule: "ab->a; b:max", in: [][]int{{5, 6}}, out: [][]int{{5}}},
		{rule: "~", in: [][]int{{5, 6}}, out: [][]int{{5}}},
		{rule: "mk,kn->mn", in: [][]int{{2, 3}, {5, 4}}, out: [][]int{{2, 4}}, bad: true},
		{rule: "ab->a; b:median", in: [][]int{{5, 6}}, out: [][]int{{5}}, bad: true},
		{rule: "ab", in: [][]int{{5, 6}}, bad: true},
		{rule: "(ab->a", in: [][]int{{5, 6}}, out: [][]int{{5}}, bad: true},
	} {
		p, err := c.rule.Bind(c.in, c.out)
		if (err != nil) != c.bad {
			t.Errorf("%s: error %v, want error %v", c.rule, err, c.bad)
			continue
		}
		for name, want := range c.sizes {
			if got := p.factor(name).Size; got != want {
				t.Errorf("%s: factor %c has size %d, want %d", c.rule, name, got, want)
			}
		}
	}
}

// TestJointFactor: along a joint factor results are complete, along others they are partial.
func TestJointFactor(t *testing.T) {
	m, err := Parse("x=2,y=2")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Rule("ab+,a->,a").Bind([][]int{{4, 6}, {4}}, [][]int{{}, {4}})
	if err != nil {
		t.Fatal(err)
	}
	_, out, err := p.Specs(m, Assignment{On("x"), On("y")})
	if err != nil {
		t.Fatal(err)
	}
	if got := out[0].String() + " " + out[1].String(); got != "@[]+{x} @[x]" {
		t.Errorf("results have layout %s: want @[]+{x} @[x]", got)
	}
	if !p.Factors[1].Joint || p.Reduced(1) {
		t.Error("b is not joint")
	}
}

// TestSharedFactor: an axis may split a shared factor and one of other tensors; along it the first one's
// tensors are complete.
func TestSharedFactor(t *testing.T) {
	m, err := Parse("x=2,y=2")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Rule("am,E&m,ao->E&m").Bind([][]int{{8, 3}, {4, 3}, {8, 5}}, [][]int{{4, 3}})
	if err != nil {
		t.Fatal(err)
	}
	a := make(Assignment, len(p.Factors))
	a[p.Index('a')], a[p.Index('E')] = Axes{{Axis: "x"}, {Axis: "y"}}, On("y")
	_, out, err := p.Specs(m, a)
	if err != nil {
		t.Fatal(err)
	}
	if got := out[0].String(); got != "@[y,_]+{x}" || !p.Exchanges(m, a) {
		t.Errorf("the result has layout %s: want @[y,_]+{x}", got)
	}
	a[p.Index('a')] = On("x")
	if p.Exchanges(m, a) {
		t.Error("nothing is shared, and yet exchanged")
	}
	a[p.Index('m')] = On("y")
	if len(p.Check(m, a)) == 0 {
		t.Error("one axis splits two dims of a tensor")
	}
}
