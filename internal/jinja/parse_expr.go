package jinja

import "strconv"

// tupleOrOne returns an expression, or several with commas between.
func (p *parser) tupleOrOne() expr {
	e := p.expression()
	if !p.is(",") {
		return e
	}
	list := []expr{e}
	for p.take(",") {
		if k := p.peek().kind; k == endBlock || k == endOutput {
			break
		}
		list = append(list, p.expression())
	}
	return listExpr{list, true}
}

// expression returns any, with a condition behind it.
func (p *parser) expression() expr {
	p.deeper()
	defer p.shallower()
	e := p.or()
	for p.is("if") {
		p.at++
		c := condExpr{yes: e, test: p.or()}
		if p.take("else") {
			c.no = p.expression()
		}
		e = c
	}
	return e
}

// conditionalFree returns an expression whose if belongs to what stands around it; commas make a tuple.
func (p *parser) conditionalFree() expr {
	e := p.or()
	if !p.is(",") {
		return e
	}
	list := []expr{e}
	for p.take(",") {
		list = append(list, p.or())
	}
	return listExpr{list, true}
}

func (p *parser) or() expr {
	e := p.and()
	for p.take("or") {
		e = logicExpr{e, p.and(), true}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for p.take("and") {
		e = logicExpr{e, p.not(), false}
	}
	return e
}

func (p *parser) not() expr {
	if p.take("not") {
		p.deeper()
		defer p.shallower()
		return notExpr{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	e := p.sum()
	var c compareExpr
	for {
		sign := ""
		switch {
		case p.peek().kind == signKind && contains([]string{"==", "!=", "<", "<=", ">", ">="}, p.peek().text):
			sign = p.next().text
		case p.take("in"):
			sign = "in"
		case p.is("not") && p.tokens[p.at+1].text == "in":
			p.at += 2
			sign = "not in"
		default:
			if len(c.signs) == 0 {
				return e
			}
			return c
		}
		if len(c.signs) == 0 {
			c.terms = []expr{e}
		}
		c.signs, c.terms = append(c.signs, sign), append(c.terms, p.sum())
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// binary returns a chain of operators of one strength, of which all bind to the left.
func (p *parser) binary(signs []string, term func() expr) expr {
	e := term()
	for p.peek().kind == signKind && contains(signs, p.peek().text) {
		t := p.next()
		e = binaryExpr{t.text, e, term(), t.line}
	}
	return e
}

func (p *parser) sum() expr { return p.binary([]string{"+", "-"}, p.joined) }

func (p *parser) joined() expr { return p.binary([]string{"~"}, p.product) }

func (p *parser) product() expr { return p.binary([]string{"*", "/", "//", "%"}, p.power) }

func (p *parser) power() expr {
	e := p.filtered(p.signed())
	for t := p.peek(); p.take("**"); t = p.peek() {
		e = binaryExpr{"**", e, p.filtered(p.signed()), t.line}
	}
	return e
}

// signed returns a value with a sign, which binds closer than filters and powers do.
func (p *parser) signed() expr {
	t := p.peek()
	if t.kind != signKind || t.text != "-" && t.text != "+" {
		return p.primary()
	}
	p.at++
	p.deeper()
	defer p.shallower()
	return signedExpr{t.text, p.signed(), t.line}
}

// primary returns a value with what follows it: attributes, elements, calls.
func (p *parser) primary() expr {
	p.deeper()
	defer p.shallower()
	e := p.atom()
	for p.err == nil {
		t := p.peek()
		switch {
		case p.take("."):
			if p.peek().kind == intKind {
				e = itemExpr{e, constExpr{number(p.next().text)}, t.line}
				continue
			}
			e = attrExpr{e, p.name(), t.line}
		case p.take("["):
			e = p.subscript(e, t.line)
		case p.take("("):
			args := p.arguments()
			e = callExpr{e, args, t.line}
		default:
			return e
		}
	}
	return e
}

func number(s string) any {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		f, _ := strconv.ParseFloat(s, 64)
		return f
	}
	return n
}

func (p *parser) subscript(e expr, line int) expr {
	var parts [3]expr
	n := 0
	for !p.is("]") && p.err == nil {
		if p.take(":") {
			if n++; n > 2 {
				p.fail("a slice has at most three parts")
			}
			continue
		}
		parts[n] = p.expression()
		if !p.is(":") {
			break
		}
	}
	p.want("]")
	if n == 0 {
		if parts[0] == nil {
			p.fail("got %q, want what to take", "]")
		}
		return itemExpr{e, parts[0], line}
	}
	return sliceExpr{e, parts, line}
}

// arguments takes those of a call up to its end.
func (p *parser) arguments() arguments {
	var a arguments
	for !p.is(")") && p.err == nil {
		if p.peek().kind == nameKind && p.tokens[p.at+1].kind == signKind && p.tokens[p.at+1].text == "=" {
			a.names = append(a.names, p.name())
			p.at++
			a.named = append(a.named, p.expression())
		} else {
			a.plain = append(a.plain, p.expression())
		}
		if !p.take(",") {
			break
		}
	}
	p.want(")")
	return a
}

// filtered returns a value with filters and tests behind it.
func (p *parser) filtered(e expr) expr {
	for p.err == nil {
		switch {
		case p.take("|"):
			e = p.filter(e)
		case p.is("is"):
			e = p.test(e)
		default:
			return e
		}
	}
	return e
}

func (p *parser) filter(e expr) filterExpr {
	f := filterExpr{of: e, line: p.peek().line, name: p.name()}
	if p.take("(") {
		f.args = p.arguments()
	}
	if _, ok := filters[f.name]; !ok {
		p.fail("no filter %q", f.name)
	}
	return f
}

func (p *parser) test(e expr) expr {
	line := p.next().line
	not := p.take("not")
	t := testExpr{of: e, not: not, line: line, name: p.name()}
	switch {
	case p.take("("):
		t.args = p.arguments()
	case p.testOperand():
		t.args.plain = []expr{p.primary()}
	}
	if _, ok := tests[t.name]; !ok {
		p.fail("no test %q", t.name)
	}
	return t
}

// testOperand reports whether a test's operand follows without parentheses.
func (p *parser) testOperand() bool {
	switch t := p.peek(); t.kind {
	case stringKind, intKind, floatKind:
		return true
	case signKind:
		return t.text == "[" || t.text == "{"
	case nameKind:
		return !contains([]string{"else", "or", "and", "is", "not", "in", "if"}, t.text)
	}
	return false
}

func (p *parser) atom() expr {
	t := p.next()
	switch t.kind {
	case stringKind:
		s := t.text
		for p.peek().kind == stringKind {
			s += p.next().text
		}
		return constExpr{s}
	case intKind:
		return constExpr{number(t.text)}
	case floatKind:
		f, _ := strconv.ParseFloat(t.text, 64)
		return constExpr{f}
	case nameKind:
		switch t.text {
		case "true", "True":
			return constExpr{true}
		case "false", "False":
			return constExpr{false}
		case "none", "None":
			return constExpr{nil}
		}
		return nameExpr{t.text}
	case signKind:
		switch t.text {
		case "(":
			return p.round()
		case "[":
			return listExpr{p.elements("]"), false}
		case "{":
			return p.dict()
		}
	}
	p.at--
	p.fail("got %s, want a value", p.describe())
	return constExpr{}
}

// round returns what stands in parentheses: an expression or a tuple.
func (p *parser) round() expr {
	if p.take(")") {
		return listExpr{nil, true}
	}
	e := p.expression()
	if p.take(")") {
		return e
	}
	p.want(",")
	return listExpr{append([]expr{e}, p.elements(")")...), true}
}

func (p *parser) elements(end string) []expr {
	var list []expr
	for !p.is(end) && p.err == nil {
		list = append(list, p.expression())
		if !p.take(",") {
			break
		}
	}
	p.want(end)
	return list
}

func (p *parser) dict() expr {
	var d dictExpr
	for !p.is("}") && p.err == nil {
		d.keys = append(d.keys, p.expression())
		p.want(":")
		d.values = append(d.values, p.expression())
		if !p.take(",") {
			break
		}
	}
	p.want("}")
	return d
}
