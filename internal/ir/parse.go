package ir

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Parse reads a program that String printed, or that a person wrote. lookup returns the zero op of a name.
// Types after the colon may be left out: the ops infer them; where given they must agree.
func Parse(text string, lookup func(name string) (Op, bool)) (*Func, error) {
	p := &parser{lookup: lookup, values: map[int]*Value{}}
	return p.parse(text)
}

// Noted holds the notes of a parsed program: of values by ID, and of results by index.
type Noted struct{ Values, Results []string }

// ParseNoted is like Parse for a text with Notes.
func ParseNoted(text string, lookup func(name string) (Op, bool)) (*Func, *Noted, error) {
	p := &parser{lookup: lookup, values: map[int]*Value{}, notes: map[*Value]string{}}
	f, err := p.parse(text)
	if err != nil {
		return nil, nil, err
	}
	n := &Noted{Values: make([]string, f.NumValues()), Results: p.resultNotes}
	for v, note := range p.notes {
		n.Values[v.ID()] = note
	}
	return f, n, nil
}

// ParseType reads a type as programs write it: f32[2,3].
func ParseType(text string) (Type, error) {
	p := &parser{scan: scanner{s: text}}
	t, err := p.typ()
	if err == nil && !p.scan.end() {
		err = fmt.Errorf("unexpected %q", p.scan.rest())
	}
	return t, err
}

// SyntaxError is an error in a program's text.
type SyntaxError struct {
	// Line and Column count from one; columns are bytes.
	Line, Column int
	Err          error
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *SyntaxError) Unwrap() error { return e.Err }

func (p *parser) parse(text string) (*Func, error) {
	for i, line := range strings.Split(text, "\n") {
		p.scan = scanner{s: line}
		if err := p.line(); err != nil {
			return nil, &SyntaxError{Line: i + 1, Column: p.scan.i + 1, Err: err}
		}
	}
	if p.f == nil {
		return nil, fmt.Errorf("program: no closing brace: want func name(params) { … return … }")
	}
	return p.f, nil
}

type parser struct {
	lookup  func(string) (Op, bool)
	scan    scanner
	b       *Builder
	values  map[int]*Value
	results []*Value
	done    bool
	f       *Func
	// notes holds the notes of values; nil if notes are not allowed.
	notes       map[*Value]string
	resultNotes []string
}

// line parses one line, depending on the part of the program it is in.
func (p *parser) line() error {
	p.scan.space()
	var err error
	switch {
	case p.scan.end():
		return nil
	case p.b == nil:
		err = p.header()
	case p.f != nil:
		return fmt.Errorf("text after the closing brace: %q", p.scan.rest())
	case p.done:
		err = p.close()
	case p.scan.word("return"):
		p.done = true
		err = p.returned()
	default:
		err = p.node()
	}
	if err != nil {
		return err
	}
	if p.scan.space(); !p.scan.end() {
		return fmt.Errorf("unexpected %q", p.scan.rest())
	}
	return nil
}

func (p *parser) header() error {
	if !p.scan.word("func") {
		return fmt.Errorf("got %q, want func", p.scan.rest())
	}
	p.scan.space()
	name := p.scan.funcName()
	if name == "" || !p.scan.byte('(') {
		return fmt.Errorf("got %q, want a name and its parameters", p.scan.rest())
	}
	p.b = NewBuilder(name)
	for first := true; ; first = false {
		p.scan.space()
		if p.scan.byte(')') {
			break
		}
		if !first && !p.scan.byte(',') {
			return fmt.Errorf("got %q, want a comma", p.scan.rest())
		}
		if err := p.param(); err != nil {
			return err
		}
	}
	p.scan.space()
	if !p.scan.byte('{') {
		return fmt.Errorf("got %q, want {", p.scan.rest())
	}
	return nil
}

func (p *parser) param() error {
	p.scan.space()
	id, err := p.ref()
	if err != nil {
		return err
	}
	p.scan.space()
	name, err := p.scan.quotedIfAny()
	if err != nil {
		return err
	}
	p.scan.space()
	if !p.scan.byte(':') {
		return fmt.Errorf("got %q, want a type", p.scan.rest())
	}
	t, err := p.typ()
	if err != nil {
		return err
	}
	note := p.note()
	if p.values[id] != nil {
		return fmt.Errorf("%%%d is defined twice", id)
	}
	p.values[id] = p.b.Param(name, t)
	if p.notes != nil {
		p.notes[p.values[id]] = note
	}
	return nil
}

// note parses the note after a type or a result, if notes are allowed.
func (p *parser) note() string {
	if p.notes == nil || p.scan.peek() != '@' {
		return ""
	}
	start, depth := p.scan.i, 0
	for ; !p.scan.end(); p.scan.i++ {
		switch c := p.scan.peek(); {
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case depth <= 0 && (c == ' ' || c == ',' || c == ')' || c == '\t' || c == '\r'):
			return p.scan.s[start:p.scan.i]
		}
	}
	return p.scan.s[start:]
}

// returned parses the results.
func (p *parser) returned() error {
	for {
		p.scan.space()
		if p.scan.peek() != '%' {
			return nil
		}
		v, err := p.operand()
		if err != nil {
			return err
		}
		p.results, p.resultNotes = append(p.results, v), append(p.resultNotes, p.note())
	}
}

func (p *parser) close() error {
	if !p.scan.byte('}') {
		return fmt.Errorf("got %q, want }", p.scan.rest())
	}
	f, err := p.b.Build(p.results...)
	p.f = f
	return err
}

// node parses: refs = op{attrs} operands [: types] [# place].
func (p *parser) node() error {
	var ids []int
	for {
		id, err := p.ref()
		if err != nil {
			return err
		}
		ids = append(ids, id)
		if p.scan.space(); !p.scan.byte(',') {
			break
		}
		p.scan.space()
	}
	if !p.scan.byte('=') {
		return fmt.Errorf("got %q, want =", p.scan.rest())
	}
	op, err := p.op()
	if err != nil {
		return err
	}
	in, err := p.operands()
	if err != nil {
		return err
	}
	types, notes, err := p.types()
	if err != nil {
		return err
	}
	out, err := p.add(op, in, ids, types)
	for i, v := range out {
		if p.notes != nil && i < len(notes) {
			p.notes[v] = notes[i]
		}
	}
	return err
}

func (p *parser) add(op Op, in []*Value, ids []int, types []Type) ([]*Value, error) {
	defer p.b.At(p.pos())()
	out := p.b.Apply(op, in)
	if err := p.b.Err(); err != nil {
		return nil, err
	}
	if len(out) != len(ids) {
		return nil, fmt.Errorf("%s has %d results: got %d names", op.Name(), len(out), len(ids))
	}
	if types != nil && len(types) != len(out) {
		return nil, fmt.Errorf("%s has %d results: got %d types", op.Name(), len(out), len(types))
	}
	for i, v := range out {
		if types != nil && !v.typ.Equal(types[i]) {
			return nil, fmt.Errorf("%%%d: %s makes %v, not %v", ids[i], op.Name(), v.typ, types[i])
		}
		if p.values[ids[i]] != nil {
			return nil, fmt.Errorf("%%%d is defined twice", ids[i])
		}
		p.values[ids[i]] = v
	}
	return out, nil
}

// unplaced marks nodes parsed from text without a position, so that they do not name the parser's caller.
const unplaced Pos = "-"

func (p *parser) pos() Pos {
	p.scan.space()
	if !p.scan.byte('#') {
		return unplaced
	}
	pos := Pos(strings.TrimSpace(p.scan.rest()))
	p.scan.i = len(p.scan.s)
	if pos == "" {
		return unplaced
	}
	return pos
}

func (p *parser) op() (Op, error) {
	p.scan.space()
	name := p.scan.ident()
	op, ok := p.lookup(name)
	if !ok {
		return nil, fmt.Errorf("no op is called %q", name)
	}
	if !p.scan.byte('{') {
		return op, nil
	}
	return p.attrs(op)
}

func (p *parser) operands() ([]*Value, error) {
	var in []*Value
	for {
		p.scan.space()
		if p.scan.peek() != '%' {
			return in, nil
		}
		v, err := p.operand()
		if err != nil {
			return nil, err
		}
		in = append(in, v)
	}
}

func (p *parser) operand() (*Value, error) {
	start := p.scan.i
	id, err := p.ref()
	if err != nil {
		return nil, err
	}
	v := p.values[id]
	if v == nil {
		p.scan.i = start
		return nil, fmt.Errorf("%%%d is used before it is made", id)
	}
	return v, nil
}

func (p *parser) types() (types []Type, notes []string, err error) {
	p.scan.space()
	if !p.scan.byte(':') {
		return nil, nil, nil
	}
	for {
		t, err := p.typ()
		if err != nil {
			return nil, nil, err
		}
		types, notes = append(types, t), append(notes, p.note())
		if !p.scan.byte(',') {
			return types, notes, nil
		}
	}
}

func (p *parser) ref() (int, error) {
	if !p.scan.byte('%') {
		return 0, fmt.Errorf("got %q, want a value such as %%0", p.scan.rest())
	}
	return p.scan.number()
}

// typ parses f32[2,3].
func (p *parser) typ() (Type, error) {
	p.scan.space()
	dtype, err := array.ParseDType(p.scan.ident())
	if err != nil {
		return Type{}, err
	}
	if !p.scan.byte('[') {
		return Type{}, fmt.Errorf("got %q, want a shape such as [2,3]", p.scan.rest())
	}
	t := Type{DType: dtype}
	for !p.scan.byte(']') {
		if len(t.Shape) > 0 && !p.scan.byte(',') {
			return Type{}, fmt.Errorf("got %q, want a comma or ]", p.scan.rest())
		}
		n, err := p.scan.number()
		if err != nil {
			return Type{}, err
		}
		t.Shape = append(t.Shape, n)
	}
	if !t.Shape.Valid() {
		return Type{}, fmt.Errorf("shape %v is too large", t.Shape)
	}
	return t, nil
}
