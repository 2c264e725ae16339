package grammar

import (
	"errors"
	"fmt"
)

// set is bytes.
type set [4]uint64

func (s *set) add(lo, hi byte) {
	for c := int(lo); c <= int(hi); c++ {
		s[c/64] |= 1 << (c % 64)
	}
}

func (s *set) has(c byte) bool { return s[c/64]>>(c%64)&1 == 1 }

// elem is one element of an alternative: bytes, a rule, or its end.
type elem struct {
	kind elemKind
	set  set
	rule int
}

type elemKind uint8

const (
	endElem elemKind = iota
	setElem
	ruleElem
)

// Grammar is rules; rule 0 is the text.
type Grammar struct {
	elems []elem
	rules [][]int // where the alternatives of each rule begin
}

// maxElems bounds grammars: one that a client sends must not take the server's memory.
const maxElems = 1 << 18

var errLarge = errors.New("the grammar is too large")

// expr is a part of a grammar before it is laid out.
type expr interface{}

type (
	bytesExpr  set
	seqExpr    []expr
	altExpr    []expr
	refExpr    int // a rule
	emptyExpr  struct{}
	repeatExpr struct {
		of       expr
		min, max int // max -1 is no limit
	}
)

// builder lays rules out.
type builder struct {
	g   Grammar
	err error
}

// rule makes a rule whose alternatives are defined later.
func (b *builder) rule() int {
	b.g.rules = append(b.g.rules, nil)
	return len(b.g.rules) - 1
}

// define lays out the alternatives of a rule.
func (b *builder) define(rule int, e expr) {
	alternatives, ok := e.(altExpr)
	if !ok {
		alternatives = altExpr{e}
	}
	for _, a := range alternatives {
		var list []elem
		b.flatten(a, &list)
		if len(b.g.elems)+len(list) >= maxElems || b.err != nil {
			if b.err == nil {
				b.err = errLarge
			}
			return
		}
		b.g.rules[rule] = append(b.g.rules[rule], len(b.g.elems))
		b.g.elems = append(append(b.g.elems, list...), elem{kind: endElem})
	}
}

// sub returns a rule of its own for an expression.
func (b *builder) sub(e expr) elem {
	r := b.rule()
	if len(b.g.rules) >= maxElems {
		b.err = errLarge
		return elem{kind: ruleElem, rule: r}
	}
	b.define(r, e)
	return elem{kind: ruleElem, rule: r}
}

func (b *builder) flatten(e expr, to *[]elem) {
	if b.err != nil {
		return
	}
	switch e := e.(type) {
	case emptyExpr:
	case bytesExpr:
		*to = append(*to, elem{kind: setElem, set: set(e)})
	case refExpr:
		*to = append(*to, elem{kind: ruleElem, rule: int(e)})
	case seqExpr:
		for _, x := range e {
			b.flatten(x, to)
		}
	case altExpr:
		*to = append(*to, b.sub(e))
	case repeatExpr:
		b.repeat(e, to)
	default:
		b.err = fmt.Errorf("a %T in a grammar", e)
	}
	if len(*to) > maxElems {
		b.err = errLarge
	}
}

// repeat is min times an expression, and then up to max.
func (b *builder) repeat(e repeatExpr, to *[]elem) {
	one := b.sub(e.of)
	for range e.min {
		*to = append(*to, one)
	}
	more := refExpr(one.rule)
	switch {
	case e.max < 0:
		r := b.rule()
		b.define(r, altExpr{seqExpr{more, refExpr(r)}, emptyExpr{}})
		*to = append(*to, elem{kind: ruleElem, rule: r})
	case e.max > e.min:
		var rest expr = emptyExpr{}
		for range e.max - e.min {
			rest = refExpr(b.sub(altExpr{seqExpr{more, rest}, emptyExpr{}}).rule)
			if b.err != nil {
				return
			}
		}
		b.flatten(rest, to)
	}
}

func literal(text string) expr {
	var s seqExpr
	for i := range len(text) {
		var c set
		c.add(text[i], text[i])
		s = append(s, bytesExpr(c))
	}
	return s
}

func class(pairs ...byte) expr {
	var s set
	for i := 0; i+1 < len(pairs); i += 2 {
		s.add(pairs[i], pairs[i+1])
	}
	return bytesExpr(s)
}

func optional(e expr) expr { return repeatExpr{e, 0, 1} }

// build returns the grammar of an expression, which may use the builder's rules.
func (b *builder) build(e expr) (*Grammar, error) {
	b.define(0, e)
	if b.err != nil {
		return nil, b.err
	}
	return &b.g, nil
}

func newBuilder() *builder { return &builder{g: Grammar{rules: [][]int{nil}}} }

// Choice returns one of several texts.
func Choice(texts []string) (*Grammar, error) {
	if len(texts) == 0 {
		return nil, errors.New("choice: want at least one text")
	}
	var a altExpr
	for _, t := range texts {
		a = append(a, literal(t))
	}
	return newBuilder().build(a)
}
