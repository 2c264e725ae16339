package ir

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Parse reads a program that String printed, or that a person wrote. The zero op for a name comes from
// lookup. Types after the colon may be left out: the ops infer them; where given they must agree.
func Parse(text string, lookup func(name string) (Op, bool)) (*Func, error) {
	p := &parser{lookup: lookup, values: map[int]*Value{}}
	for i, line := range strings.Split(text, "\n") {
		p.scan = scanner{s: line}
		if err := p.line(); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
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
}

// line reads one line according to how far the program has come.
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
		p.results, err = p.operands()
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
	name := p.scan.ident()
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
	if p.values[id] != nil {
		return fmt.Errorf("%%%d is defined twice", id)
	}
	p.values[id] = p.b.Param(name, t)
	return nil
}

func (p *parser) close() error {
	if !p.scan.byte('}') {
		return fmt.Errorf("got %q, want }", p.scan.rest())
	}
	f, err := p.b.Build(p.results...)
	p.f = f
	return err
}

// node reads: refs = op{attrs} operands [: types] [# place].
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
	types, err := p.types()
	if err != nil {
		return err
	}
	return p.add(op, in, ids, types)
}

func (p *parser) add(op Op, in []*Value, ids []int, types []Type) error {
	defer p.b.At(p.pos())()
	out := p.b.Apply(op, in)
	if err := p.b.Err(); err != nil {
		return err
	}
	if len(out) != len(ids) {
		return fmt.Errorf("%s has %d results: got %d names", op.Name(), len(out), len(ids))
	}
	if types != nil && len(types) != len(out) {
		return fmt.Errorf("%s has %d results: got %d types", op.Name(), len(out), len(types))
	}
	for i, v := range out {
		if types != nil && !v.typ.Equal(types[i]) {
			return fmt.Errorf("%%%d: %s makes %v, not %v", ids[i], op.Name(), v.typ, types[i])
		}
		if p.values[ids[i]] != nil {
			return fmt.Errorf("%%%d is defined twice", ids[i])
		}
		p.values[ids[i]] = v
	}
	return nil
}

// unplaced marks nodes read from text that names no place, so that they do not name the parser's caller.
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
		id, err := p.ref()
		if err != nil {
			return nil, err
		}
		v := p.values[id]
		if v == nil {
			return nil, fmt.Errorf("%%%d is used before it is made", id)
		}
		in = append(in, v)
	}
}

func (p *parser) types() ([]Type, error) {
	p.scan.space()
	if !p.scan.byte(':') {
		return nil, nil
	}
	var types []Type
	for {
		t, err := p.typ()
		if err != nil {
			return nil, err
		}
		types = append(types, t)
		if !p.scan.byte(',') {
			return types, nil
		}
	}
}

func (p *parser) ref() (int, error) {
	if !p.scan.byte('%') {
		return 0, fmt.Errorf("got %q, want a value such as %%0", p.scan.rest())
	}
	return p.scan.number()
}

// typ reads f32[2,3].
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

// scanner reads the small words of one line.
type scanner struct {
	s string
	i int
}

func (s *scanner) end() bool    { return s.i >= len(s.s) }
func (s *scanner) rest() string { return s.s[s.i:] }

func (s *scanner) peek() byte {
	if s.end() {
		return 0
	}
	return s.s[s.i]
}

func (s *scanner) space() {
	for s.peek() == ' ' || s.peek() == '\t' || s.peek() == '\r' {
		s.i++
	}
}

func (s *scanner) byte(c byte) bool {
	if s.peek() != c || s.end() {
		return false
	}
	s.i++
	return true
}

// word consumes w if it stands here as a whole word.
func (s *scanner) word(w string) bool {
	if !strings.HasPrefix(s.rest(), w) {
		return false
	}
	if after := s.s[s.i+len(w):]; after != "" && isIdent(after[0]) {
		return false
	}
	s.i += len(w)
	return true
}

func isIdent(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func (s *scanner) ident() string {
	start := s.i
	for isIdent(s.peek()) {
		s.i++
	}
	return s.s[start:s.i]
}

func (s *scanner) number() (int, error) {
	start := s.i
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.i++
	}
	n, err := strconv.Atoi(s.s[start:s.i])
	if err != nil {
		return 0, fmt.Errorf("got %q, want a number", s.s[start:])
	}
	return n, nil
}

func (s *scanner) quotedIfAny() (string, error) {
	if s.peek() != '"' {
		return "", nil
	}
	text, err := strconv.QuotedPrefix(s.rest())
	if err != nil {
		return "", fmt.Errorf("unclosed quote: %q", s.rest())
	}
	s.i += len(text)
	return strconv.Unquote(text)
}
