package hlo

import (
	"fmt"
	"strings"
)

// Program is a parsed module: one function called main.
type Program struct {
	Name  string
	Attrs []NamedAttr
	Main  Block
	// Results are the types that main returns.
	Results []TensorType
}

// TensorType is a type in the text; its element type may be one that no array has, such as ui32.
type TensorType struct {
	Elem  string
	Shape []int
}

// String prints the type as Type does.
func (t TensorType) String() string {
	var b strings.Builder
	b.WriteString("tensor<")
	for _, d := range t.Shape {
		fmt.Fprintf(&b, "%dx", d)
	}
	return b.String() + t.Elem + ">"
}

// Len returns the number of elements.
func (t TensorType) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Equal reports whether t and u are the same type.
func (t TensorType) Equal(u TensorType) bool { return t.String() == u.String() }

// Block is parameters and operations, the last of which is the terminator.
type Block struct {
	Params []Param
	Ops    []*Operation
}

// Param is a parameter of a block.
type Param struct {
	Name  string
	Type  TensorType
	Attrs []NamedAttr
}

// Operation is one operation in generic form.
type Operation struct {
	// Result is the name of the results without the index of each, Name the operation's, with its dialect.
	Result, Name string
	Operands     []string
	Regions      []Block
	Attrs        []NamedAttr
	In, Out      []TensorType
	// Line is its line in the text.
	Line int
}

// Attr returns the attribute with a name, or nil.
func (o *Operation) Attr(name string) Attr {
	for _, a := range o.Attrs {
		if a.Name == name {
			return a.Value
		}
	}
	return nil
}

// ResultName returns the name of result i.
func (o *Operation) ResultName(i int) string {
	if len(o.Out) == 1 {
		return o.Result
	}
	return fmt.Sprintf("%s#%d", o.Result, i)
}

// String prints the module as a Writer does.
func (p *Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "module @%s%s {\n  func.func public @main(", p.Name, keyword(" attributes", p.Attrs))
	for i, param := range p.Main.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s: %s%s", param.Name, param.Type, keyword("", param.Attrs))
	}
	fmt.Fprintf(&b, ") -> (%s) {\n", typeWords(p.Results))
	for _, o := range p.Main.Ops {
		o.print(&b, 2)
	}
	b.WriteString("  }\n}\n")
	return b.String()
}

func keyword(word string, attrs []NamedAttr) string {
	if len(attrs) == 0 {
		return ""
	}
	return word + " {" + attrWords(attrs) + "}"
}

func (o *Operation) print(b *strings.Builder, depth int) {
	b.WriteString(strings.Repeat("  ", depth))
	switch {
	case len(o.Out) == 1:
		b.WriteString(o.Result + " = ")
	case len(o.Out) > 1:
		fmt.Fprintf(b, "%s:%d = ", o.Result, len(o.Out))
	}
	fmt.Fprintf(b, "\"%s\"(%s)", o.Name, strings.Join(o.Operands, ", "))
	for i, r := range o.Regions {
		b.WriteString([]string{" ({\n", ", {\n"}[min(i, 1)])
		r.print(b, depth)
		b.WriteString(strings.Repeat("  ", depth) + "}")
	}
	if len(o.Regions) > 0 {
		b.WriteString(")")
	}
	b.WriteString(keyword("", o.Attrs))
	fmt.Fprintf(b, " : (%s) -> (%s)\n", typeWords(o.In), typeWords(o.Out))
}

func (r *Block) print(b *strings.Builder, depth int) {
	words := make([]string, len(r.Params))
	for i, p := range r.Params {
		words[i] = p.Name + ": " + p.Type.String()
	}
	if len(words) > 0 {
		fmt.Fprintf(b, "%s^bb0(%s):\n", strings.Repeat("  ", depth), strings.Join(words, ", "))
	}
	for _, o := range r.Ops {
		o.print(b, depth+1)
	}
}

func typeWords(ts []TensorType) string {
	words := make([]string, len(ts))
	for i, t := range ts {
		words[i] = t.String()
	}
	return strings.Join(words, ", ")
}
