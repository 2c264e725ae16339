package triton

// compares are the predicates of comparisons, of integers and of floats.
var (
	compareInts = map[string]func(a, b int64) bool{
		"eq":  func(a, b int64) bool { return a == b },
		"ne":  func(a, b int64) bool { return a != b },
		"slt": func(a, b int64) bool { return a < b },
		"sle": func(a, b int64) bool { return a <= b },
		"sgt": func(a, b int64) bool { return a > b },
		"sge": func(a, b int64) bool { return a >= b },
	}
	compareFloats = map[string]func(a, b float64) bool{
		"oeq": func(a, b float64) bool { return a == b },
		"ogt": func(a, b float64) bool { return a > b },
		"olt": func(a, b float64) bool { return a < b },
		"oge": func(a, b float64) bool { return a >= b },
		"ole": func(a, b float64) bool { return a <= b },
	}
)

// predicate parses the name of a comparison.
func predicate[T any](p *parser, o *operation, known map[string]T) T {
	word := p.name()
	f, ok := known[word]
	if !ok {
		p.failAt(o.at, "%s: %s: unknown comparison", o.name, word)
	}
	p.want(",")
	return f
}

// readCompareInts parses slt, %a, %b : T.
func readCompareInts(p *parser, o *operation) []typ {
	f := predicate(p, o, compareInts)
	o.eval = func(_ *machine, o *operation) error {
		b := o.in[1].i
		for l, x := range o.in[0].i {
			o.out[0].i[l] = truth(f(x, b[l]))
		}
		return nil
	}
	return []typ{p.same(o, 2, typ.isInt).of("i1")}
}

func readCompareFloats(p *parser, o *operation) []typ {
	f := predicate(p, o, compareFloats)
	o.eval = func(_ *machine, o *operation) error {
		b := o.in[1].f
		for l, x := range o.in[0].f {
			o.out[0].i[l] = truth(f(x, b[l]))
		}
		return nil
	}
	return []typ{p.same(o, 2, typ.isFloat).of("i1")}
}

func truth(b bool) int64 {
	if b {
		return -1
	}
	return 0
}

// readSelect parses %c, %a, %b : T, where %c is i1, or its type is given before T.
func readSelect(p *parser, o *operation) []typ {
	uses := p.uses(3, 3)
	p.want(":")
	cond, t := typ{elem: "i1"}, p.typ()
	if p.accept(",") {
		cond, t = t, p.typ()
	}
	if t.pointer || cond.lanes > 0 && cond.lanes != t.lanes || cond.elem != "i1" {
		p.failAt(o.at, "%s: got a choice by %v of %v: not types it takes", o.name, cond, t)
	}
	p.take(o, cond, uses[0])
	p.take(o, t, uses[1:]...)
	o.eval = func(_ *machine, o *operation) error {
		c := o.in[0].i
		for l := range max(t.lanes, 1) {
			from := o.in[2]
			if c[l%len(c)] != 0 {
				from = o.in[1]
			}
			o.out[0].copyLane(l, from, l)
		}
		return nil
	}
	return []typ{t}
}

// readConstant parses 1 : i32, true, dense<1.0> : tensor<4xf32> or dense<[1, 2]> : tensor<2xi32>.
func readConstant(p *parser, o *operation) []typ {
	var words []string
	dense, listed := p.accept("dense<"), false
	switch {
	case dense && p.peek("["):
		listed = true
		p.list("[", "]", func() { words = append(words, p.number()) })
	default:
		words = []string{p.number()}
	}
	if dense {
		p.want(">")
	}
	t := typ{elem: "i1"}
	if dense || words[0] != "true" && words[0] != "false" {
		p.want(":")
		t = p.typ()
	}
	if t.pointer || dense != (t.lanes > 0) || listed && len(words) != t.lanes {
		p.failAt(o.at, "%s: got %d numbers for %v: want one, or dense<…> for a tensor", o.name, len(words), t)
	}
	o.in = []*value{p.constant(o, t, words)}
	o.eval = func(_ *machine, o *operation) error {
		o.out[0].copyFrom(o.in[0])
		return nil
	}
	return []typ{t}
}

// constant returns the value of literals: one for each lane, or one for all.
func (p *parser) constant(o *operation, t typ, words []string) *value {
	v := p.newValue(o.at, t)
	for l, word := range words {
		if err := v.literal(l, word); err != nil {
			p.failAt(o.at, "%s: %v", o.name, err)
		}
	}
	v.fit()
	if len(words) == 1 {
		v.fill(v)
	}
	return v
}
