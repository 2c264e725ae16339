package hlo

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Parse parses a module in the form that a Writer prints: MLIR's generic form.
func Parse(text string) (p *Program, err error) {
	s := &parser{scanner: scanner{text: text}}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case syntaxError:
			p, err = nil, e.error
		default:
			panic(e)
		}
	}()
	p = s.module()
	if s.space(); s.at < len(text) {
		s.fail("the end")
	}
	return p, nil
}

type parser struct {
	scanner
	depth int
}

func (s *parser) module() *Program {
	s.want("module")
	s.want("@")
	p := &Program{Name: s.name()}
	if s.accept("attributes") {
		p.Attrs = s.attrs()
	}
	s.want("{")
	s.want("func.func")
	s.want("public")
	s.want("@main")
	s.list("(", ")", func() {
		param := Param{Name: s.value()}
		s.want(":")
		param.Type = s.tensor()
		if s.peek("{") {
			param.Attrs = s.attrs()
		}
		p.Main.Params = append(p.Main.Params, param)
	})
	s.want("->")
	p.Results = s.types()
	s.want("{")
	p.Main.Ops = s.operations()
	s.want("}")
	s.want("}")
	return p
}

// maxDepth is how deeply regions and lists may be nested.
const maxDepth = 32

func (s *parser) enter() {
	if s.depth++; s.depth > maxDepth {
		s.fail(fmt.Sprintf("no more than %d levels", maxDepth))
	}
}

func (s *parser) operations() []*Operation {
	var ops []*Operation
	for !s.peek("}") {
		ops = append(ops, s.operation())
	}
	return ops
}

func (s *parser) operation() *Operation {
	s.space()
	o := &Operation{Line: s.line()}
	results := 0
	if s.peek("%") {
		s.want("%")
		o.Result, results = "%"+s.name(), 1
		if s.accept(":") {
			results = s.int()
		}
		s.want("=")
	}
	o.Name = s.quoted()
	s.list("(", ")", func() { o.Operands = append(o.Operands, s.value()) })
	if s.peek("(") {
		s.list("(", ")", func() { o.Regions = append(o.Regions, s.region()) })
	}
	if s.peek("{") {
		o.Attrs = s.attrs()
	}
	s.want(":")
	o.In = s.types()
	s.want("->")
	o.Out = s.types()
	if len(o.Operands) != len(o.In) || results != len(o.Out) || results == 0 && o.Result != "" {
		panic(syntaxError{fmt.Errorf("stablehlo: line %d: %s: %d operands and %d results: want as many as "+
			"types: %d and %d", o.Line, o.Name, len(o.Operands), results, len(o.In), len(o.Out))})
	}
	return o
}

func (s *parser) region() Block {
	s.enter()
	var b Block
	s.want("{")
	if s.accept("^bb0") {
		s.list("(", ")", func() {
			p := Param{Name: s.value()}
			s.want(":")
			p.Type = s.tensor()
			b.Params = append(b.Params, p)
		})
		s.want(":")
	}
	b.Ops = s.operations()
	s.want("}")
	s.depth--
	return b
}

func (s *parser) int() int {
	n, err := strconv.Atoi(s.run("a number", isDigit))
	if err != nil {
		s.fail("a smaller number")
	}
	return n
}

func (s *parser) types() []TensorType {
	var ts []TensorType
	s.list("(", ")", func() { ts = append(ts, s.tensor()) })
	return ts
}

// maxElements is the most elements of a tensor.
const maxElements = 1 << 40

func (s *parser) tensor() TensorType {
	s.want("tensor<")
	word := s.run("a type", isName)
	s.want(">")
	parts := strings.Split(word, "x")
	t := TensorType{Elem: parts[len(parts)-1]}
	n := 1
	if t.Elem == "inde" || t.Elem == "" { // the x of index is not a separator
		s.fail("an element type")
	}
	for _, p := range parts[:len(parts)-1] {
		d, err := strconv.Atoi(p)
		if err != nil || d < 0 || d > maxElements || strconv.Itoa(d) != p {
			s.fail("a type's dims")
		}
		if n *= max(d, 1); n > maxElements {
			s.fail("fewer elements")
		}
		t.Shape = append(t.Shape, d)
	}
	return t
}

func (s *parser) attrs() []NamedAttr {
	var attrs []NamedAttr
	s.list("{", "}", func() {
		a := NamedAttr{Name: s.name()}
		if s.accept("=") {
			a.Value = s.attr()
		}
		attrs = append(attrs, a)
	})
	return attrs
}

func (s *parser) attr() Attr {
	s.enter()
	defer func() { s.depth-- }()
	switch {
	case s.peek(`"`):
		return TextAttr(s.quoted())
	case s.peek("["):
		a := ListAttr{}
		s.list("[", "]", func() { a = append(a, s.attr()) })
		return a
	case s.peek("{"):
		return DictAttr(s.attrs())
	case s.accept("array<"):
		return s.array()
	case s.accept("dense<"):
		return s.dense()
	case s.accept("#stablehlo<"):
		a := EnumAttr{Kind: s.name()}
		a.Value = s.name()
		s.want(">")
		return a
	case s.accept("#stablehlo.conv<"):
		return s.conv()
	case s.accept("#stablehlo."):
		return s.structure()
	case s.accept("true"):
		return NumberAttr{Word: "true"}
	case s.accept("false"):
		return NumberAttr{Word: "false"}
	}
	a := NumberAttr{Word: s.number()}
	if s.accept(":") {
		a.Type = s.name()
	}
	return a
}

func (s *parser) array() Attr {
	a := ArrayAttr{Elem: s.name()}
	if s.accept(">") {
		return a
	}
	s.list(":", ">", func() { a.Words = append(a.Words, s.word()) })
	return a
}

// word parses a number or a truth value.
func (s *parser) word() string {
	for _, w := range []string{"true", "false"} {
		if s.accept(w) {
			return w
		}
	}
	return s.number()
}

func (s *parser) dense() Attr {
	a := DenseAttr{Splat: !s.peek("[") && !s.peek(">")}
	if !s.peek(">") {
		s.elements(&a)
	}
	s.want(">")
	s.want(":")
	a.Type = s.layoutOrTensor()
	if want := a.Type.Len(); !a.Splat && len(a.Words) != want {
		s.fail(fmt.Sprintf("%d elements, not %d", want, len(a.Words)))
	}
	return a
}

// layoutOrTensor parses a tensor type; the element type index is only allowed here.
func (s *parser) layoutOrTensor() TensorType {
	if !s.peek("tensor<") {
		s.fail("a tensor type")
	}
	start := s.at
	s.want("tensor<")
	if word := s.run("a type", isName); strings.HasSuffix(word, "xindex") {
		n, err := strconv.Atoi(strings.TrimSuffix(word, "xindex"))
		if err != nil || n < 0 || n > maxElements {
			s.fail("a type's dims")
		}
		s.want(">")
		return TensorType{"index", []int{n}}
	}
	s.at = start
	return s.tensor()
}

func (s *parser) elements(a *DenseAttr) {
	s.enter()
	defer func() { s.depth-- }()
	if !s.peek("[") {
		a.Words = append(a.Words, s.word())
		return
	}
	s.list("[", "]", func() { s.elements(a) })
}

func (s *parser) conv() Attr {
	side := func() (words []string) {
		s.list("[", "]", func() { words = append(words, s.name()) })
		return words
	}
	a := ConvAttr{In: side()}
	s.want("x")
	a.Kernel = side()
	s.want("->")
	a.Out = side()
	s.want(">")
	return a
}

func (s *parser) structure() Attr {
	a := StructAttr{Kind: s.name()}
	s.list("<", ">", func() {
		f := NamedAttr{Name: s.name()}
		s.want("=")
		f.Value = s.attr()
		a.Fields = append(a.Fields, f)
	})
	return a
}

// IntsOf returns the integers of an attribute: of an array, a list, or all of a dense one.
func IntsOf(a Attr) ([]int, error) {
	var words []string
	switch a := a.(type) {
	case ArrayAttr:
		words = a.Words
	case ListAttr:
		for _, x := range a {
			words = append(words, x.String())
		}
	case DenseAttr:
		words = a.Words
	case NumberAttr:
		words = []string{a.Word}
	case nil:
		return nil, errors.New("attribute is missing")
	default:
		return nil, fmt.Errorf("attribute %v: want numbers", a)
	}
	out := make([]int, len(words))
	for i, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil {
			return nil, fmt.Errorf("attribute %v: want whole numbers", a)
		}
		out[i] = n
	}
	return out, nil
}
