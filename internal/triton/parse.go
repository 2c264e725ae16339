package triton

import (
	"fmt"
	"slices"
)

// kernel is a parsed kernel, which is run directly: its operations point to the values that they read and
// write.
type kernel struct {
	text   string
	name   string
	params []*value
	body   []*operation
}

// operation is a type-checked operation.
type operation struct {
	// at is its position in the text.
	at      int
	name    string
	in, out []*value
	// lanes is the number of elements that it computes or reads.
	lanes int
	eval  func(m *machine, o *operation) error
}

// use is an operand: a reference to a value.
type use struct {
	*value
	name string
	at   int
}

// parser parses a kernel, resolves names and checks types.
type parser struct {
	scanner
	// scopes holds the visible values by the name of the operation that defines them, innermost last.
	scopes []map[string][]*value
	lanes  int
}

func parse(text string) (k *kernel, err error) {
	p := &parser{scanner: scanner{text: text}}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case syntaxError:
			k, err = nil, e.error
		default:
			panic(e)
		}
	}()
	k = p.module()
	if p.space(); p.at < len(text) {
		p.fail("the end")
	}
	return k, nil
}

func (p *parser) module() *kernel {
	k := &kernel{text: p.text}
	p.wantKeyword("module")
	if p.keyword("attributes") {
		p.attrs()
	}
	p.want("{")
	p.wantKeyword("tt.func")
	p.wantKeyword("public")
	p.want("@")
	k.name = p.name()
	p.open()
	p.list("(", ")", func() { k.params = append(k.params, p.param(len(k.params))) })
	if p.keyword("attributes") {
		p.attrs()
	}
	p.want("{")
	k.body, _ = p.block("tt.return", nil)
	p.want("}")
	p.want("}")
	return k
}

func (p *parser) param(n int) *value {
	p.space()
	at := p.at
	name := p.value()
	p.want(":")
	t := p.typ()
	if _, ok := dtypes[t.elem]; !t.pointer || !ok || t.lanes > 0 {
		p.failAt(at, "parameter %%%s is %v: want a pointer to i32, i64, f16, bf16, f32 or f64", name, t)
	}
	if p.peek("{") {
		p.attrs()
	}
	v := p.newValue(at, t)
	v.param = n
	p.define(at, name, v)
	return v
}

// maxDepth is how deeply blocks may be nested, maxLanes the most elements of all values together.
const (
	maxDepth = 16
	maxLanes = 1 << 24
)

func (p *parser) open() {
	if p.scopes = append(p.scopes, map[string][]*value{}); len(p.scopes) > maxDepth {
		p.failAt(p.at, "blocks lie deeper than %d in each other", maxDepth)
	}
}

func (p *parser) close() { p.scopes = p.scopes[:len(p.scopes)-1] }

func (p *parser) newValue(at int, t typ) *value {
	if p.lanes += max(t.lanes, 1); p.lanes > maxLanes {
		p.failAt(at, "the kernel's values have more than %d numbers together", maxLanes)
	}
	return newValue(t)
}

func (p *parser) define(at int, name string, values ...*value) {
	for _, s := range p.scopes {
		if s[name] != nil {
			p.failAt(at, "value %%%s is defined twice", name)
		}
	}
	p.scopes[len(p.scopes)-1][name] = values
}

// use parses a reference to a value: %x or %x#1.
func (p *parser) use() use {
	p.space()
	at := p.at
	name, which := p.value(), 0
	full := "%" + name
	if p.accept("#") {
		which = p.int()
		full += fmt.Sprintf("#%d", which)
	}
	for _, s := range p.scopes {
		if values := s[name]; which < len(values) {
			return use{values[which], full, at}
		}
	}
	p.failAt(at, "value %s is not defined", full)
	return use{}
}

// uses parses references separated by commas: at least least and at most most.
func (p *parser) uses(least, most int) []use {
	var uses []use
	for len(uses) == 0 || p.accept(",") {
		uses = append(uses, p.use())
	}
	if n := len(uses); n < least || n > most {
		p.failAt(uses[0].at, "got %d operands: want %d to %d", n, least, most)
	}
	return uses
}

// typed checks the type of an operand.
func (p *parser) typed(u use, want typ) {
	if u.typ != want {
		p.failAt(u.at, "value %s is %v: want %v", u.name, u.typ, want)
	}
}

// block parses operations up to the terminator of a block, which returns values of these types, and returns
// those. The terminator of a loop that carries nothing is optional.
func (p *parser) block(end string, want []typ) ([]*operation, []*value) {
	var ops []*operation
	for {
		if end == "scf.yield" && len(want) == 0 && p.peek("}") {
			return ops, nil
		}
		p.space()
		at := p.at
		names, count := p.results()
		o := &operation{at: at, name: p.operator()}
		if o.name == end && count == 0 {
			return ops, p.returned(o, want)
		}
		p.operation(o, names, count)
		ops = append(ops, o)
	}
}

// results parses the text before an operation: the name of its results and their number.
func (p *parser) results() (name string, count int) {
	if !p.peek("%") {
		return "", 0
	}
	name, count = p.value(), 1
	if p.accept(":") {
		if count = p.int(); count == 0 {
			p.fail("some results")
		}
	}
	p.want("=")
	return name, count
}

// operator parses an operation's name, which is quoted in generic form.
func (p *parser) operator() string {
	if p.accept(`"`) {
		name := p.name()
		p.want(`"`)
		return `"` + name + `"`
	}
	return p.run("an operation", isName)
}

func (p *parser) returned(o *operation, want []typ) []*value {
	var values []*value
	var uses []use
	if p.peek("%") {
		uses = p.uses(1, maxTensor)
		p.want(":")
	}
	if len(uses) != len(want) {
		p.failAt(o.at, "%s: got %d values: want %d", o.name, len(uses), len(want))
	}
	for i, u := range uses {
		if i > 0 {
			p.want(",")
		}
		p.typed(u, p.typ())
		p.typed(u, want[i])
		values = append(values, u.value)
	}
	return values
}

func (p *parser) operation(o *operation, name string, count int) {
	read, ok := syntax[o.name]
	if !ok {
		p.failAt(o.at, "%s: unknown operation, or not where it may stand", o.name)
	}
	types := read(p, o)
	if name != "" && count != len(types) {
		p.failAt(o.at, "%s: got %d names: want %d for its results", o.name, count, len(types))
	}
	for _, t := range types {
		o.out = append(o.out, p.newValue(o.at, t))
	}
	for _, v := range slices.Concat(o.in, o.out) {
		o.lanes = max(o.lanes, v.lanes, 1)
	}
	if name != "" {
		p.define(o.at, name, o.out...)
	}
}

// take sets the operands, and checks that all have a type.
func (p *parser) take(o *operation, t typ, uses ...use) {
	for _, u := range uses {
		p.typed(u, t)
		o.in = append(o.in, u.value)
	}
}
