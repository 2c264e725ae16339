package jinja

import (
	"slices"
	"strconv"
)

// Template is a parsed template. It may be rendered concurrently.
type Template struct{ body []node }

// maxDepth is how deep templates may be nested, and how deep macros may call each other.
const maxDepth = 120

// Parse reads a template.
func Parse(text string) (*Template, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body := p.nodes()
	if p.err == nil && p.peek().kind != endKind {
		p.fail("unexpected %s", p.describe())
	}
	if p.err != nil {
		return nil, p.err
	}
	return &Template{body}, nil
}

// parser makes nodes of tokens; after the first error it continues without effect.
type parser struct {
	tokens []token
	at     int
	depth  int
	err    error
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if p.at < len(p.tokens)-1 {
		p.at++
	}
	return t
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = syntaxError(p.peek().line, format, args...)
		p.at = len(p.tokens) - 1
	}
}

func (p *parser) describe() string {
	if t := p.peek(); t.text != "" {
		return strconv.Quote(t.text)
	}
	return "end of a tag or the template"
}

// is reports whether the next token is a sign or a word.
func (p *parser) is(text string) bool {
	t := p.peek()
	return (t.kind == signKind || t.kind == nameKind) && t.text == text
}

func (p *parser) take(text string) bool {
	if p.is(text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) want(text string) {
	if !p.take(text) {
		p.fail("got %s, want %q", p.describe(), text)
	}
}

func (p *parser) name() string {
	if p.peek().kind != nameKind {
		p.fail("got %s, want a name", p.describe())
		return ""
	}
	return p.next().text
}

// deeper counts nesting; it must be undone by shallower.
func (p *parser) deeper() {
	if p.depth++; p.depth > maxDepth {
		p.fail("the template is nested too deep")
	}
}

func (p *parser) shallower() { p.depth-- }

// nodes takes text and tags up to the end, or to a block that begins with one of ends, whose name is then
// next.
func (p *parser) nodes(ends ...string) []node {
	p.deeper()
	defer p.shallower()
	var list []node
	for p.err == nil {
		switch t := p.peek(); t.kind {
		case textKind:
			p.at++
			list = append(list, textNode(t.text))
		case beginOutput:
			p.at++
			e := p.tupleOrOne()
			p.close(endOutput)
			list = append(list, outputNode{e, t.line})
		case beginBlock:
			p.at++
			if slices.Contains(ends, p.peek().text) {
				return list
			}
			if n := p.block(); n != nil {
				list = append(list, n)
			}
		default:
			if len(ends) > 0 && t.kind == endKind {
				p.fail("the template ends: want {%% %s %%}", ends[len(ends)-1])
			}
			return list
		}
	}
	return list
}

func (p *parser) close(k kind) {
	if p.peek().kind != k {
		p.fail("got %s, want the end of the tag", p.describe())
		return
	}
	p.at++
}

func (p *parser) block() node {
	line := p.peek().line
	switch word := p.name(); word {
	case "if":
		return p.ifBlock(line)
	case "for":
		return p.forBlock(line)
	case "set":
		return p.setBlock(line)
	case "macro":
		return p.macroBlock(line)
	case "filter":
		return p.filterBlock(line)
	case "generation":
		p.close(endBlock)
		body := p.nodes("endgeneration")
		p.at++
		p.close(endBlock)
		return groupNode(body)
	case "break", "continue":
		p.close(endBlock)
		return controlNode(word)
	case "do":
		e := p.expression()
		p.close(endBlock)
		return doNode{e, line}
	default:
		p.at--
		p.fail("block %q is not supported: want if, for, set, macro, filter, do, break or continue", word)
	}
	return nil
}

func (p *parser) ifBlock(line int) node {
	n := ifNode{test: p.expression(), line: line}
	p.close(endBlock)
	n.body = p.nodes("elif", "else", "endif")
	switch {
	case p.take("elif"):
		n.other = []node{p.ifBlock(line)}
		return n
	case p.take("else"):
		p.close(endBlock)
		n.other = p.nodes("endif")
	}
	p.want("endif")
	p.close(endBlock)
	return n
}

func (p *parser) forBlock(line int) node {
	n := forNode{line: line, names: p.targets()}
	p.want("in")
	n.list = p.conditionalFree()
	if p.take("if") {
		n.test = p.expression()
	}
	if p.is("recursive") {
		p.fail("recursive loops are not supported")
	}
	p.close(endBlock)
	n.body = p.nodes("else", "endfor")
	if p.take("else") {
		p.close(endBlock)
		n.other = p.nodes("endfor")
	}
	p.want("endfor")
	p.close(endBlock)
	return n
}

// targets returns the names that a loop or a set binds.
func (p *parser) targets() []string {
	round := p.take("(")
	names := []string{p.name()}
	for p.take(",") {
		names = append(names, p.name())
	}
	if round {
		p.want(")")
	}
	return names
}

func (p *parser) setBlock(line int) node {
	n := setNode{line: line, names: []string{p.name()}}
	switch {
	case p.take("."):
		n.attribute = p.name()
	default:
		for p.take(",") {
			n.names = append(n.names, p.name())
		}
	}
	if p.take("=") {
		n.value = p.tupleOrOne()
		p.close(endBlock)
		return n
	}
	var filters []filterExpr
	for p.take("|") {
		filters = append(filters, p.filter(nil))
	}
	p.close(endBlock)
	n.body, n.filters, n.block = p.nodes("endset"), filters, true
	p.want("endset")
	p.close(endBlock)
	return n
}

func (p *parser) macroBlock(line int) node {
	n := macroNode{name: p.name(), line: line}
	p.want("(")
	for !p.is(")") && p.err == nil {
		n.args = append(n.args, p.name())
		var d expr
		if p.take("=") {
			d = p.expression()
		}
		n.defaults = append(n.defaults, d)
		if !p.take(",") {
			break
		}
	}
	p.want(")")
	p.close(endBlock)
	n.body = p.nodes("endmacro")
	p.want("endmacro")
	if p.peek().kind == nameKind {
		p.at++
	}
	p.close(endBlock)
	return n
}

func (p *parser) filterBlock(line int) node {
	n := filterNode{line: line, filter: p.filter(nil)}
	p.close(endBlock)
	n.body = p.nodes("endfilter")
	p.want("endfilter")
	p.close(endBlock)
	return n
}
