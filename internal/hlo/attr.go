package hlo

import (
	"fmt"
	"strconv"
	"strings"
)

// NamedAttr is an attribute and its name; a nil value means a unit attribute, which is only present or not.
type NamedAttr struct {
	Name  string
	Value Attr
}

// Attr is an attribute's value.
type Attr interface{ String() string }

type (
	// NumberAttr is a number with its type, or true or false, which have none.
	NumberAttr struct{ Word, Type string }
	// TextAttr is a string, escaped as in the text; Quote makes one.
	TextAttr string
	// DictAttr is attributes by name: {grid_x = 64 : i32, name = "k"}.
	DictAttr []NamedAttr
	// ListAttr is attributes in brackets.
	ListAttr []Attr
	// ArrayAttr is numbers of one type: array<i64: 1, 2>.
	ArrayAttr struct {
		Elem  string
		Words []string
	}
	// DenseAttr is the elements of a tensor: all of them in order, or one for all.
	DenseAttr struct {
		Type  TensorType
		Words []string
		Splat bool
	}
	// EnumAttr is an enum value: #stablehlo<precision HIGHEST>.
	EnumAttr struct{ Kind, Value string }
	// StructAttr is numbers and lists by name: #stablehlo.dot<lhs_batching_dimensions = [0] …>.
	StructAttr struct {
		Kind   string
		Fields []NamedAttr
	}
	// ConvAttr is the meaning of each dim of a convolution's tensors.
	ConvAttr struct{ In, Kernel, Out []string }
)

func (a NumberAttr) String() string {
	if a.Type == "" {
		return a.Word
	}
	return a.Word + " : " + a.Type
}

func (a TextAttr) String() string { return `"` + string(a) + `"` }

// Quote escapes a text for an MLIR string.
func Quote(text string) TextAttr {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < ' ' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, "\\%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return TextAttr(b.String())
}

// Text returns the string without its escapes.
func (a TextAttr) Text() string {
	var b strings.Builder
	for rest := string(a); rest != ""; {
		n := 1
		if rest[0] == '\\' {
			n = max(1, escape(rest))
		}
		switch n {
		case 3:
			c, _ := strconv.ParseUint(rest[1:3], 16, 8)
			b.WriteByte(byte(c))
		case 2:
			b.WriteByte(map[byte]byte{'n': '\n', 't': '\t', '"': '"', '\\': '\\'}[rest[1]])
		default:
			b.WriteByte(rest[0])
		}
		rest = rest[n:]
	}
	return b.String()
}

func (a DictAttr) String() string { return "{" + attrWords(a) + "}" }

// Field returns the attribute with a name, or nil.
func (a DictAttr) Field(name string) Attr { return StructAttr{Fields: a}.Field(name) }

func (a ListAttr) String() string {
	words := make([]string, len(a))
	for i, x := range a {
		words[i] = x.String()
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func (a ArrayAttr) String() string {
	if len(a.Words) == 0 {
		return "array<" + a.Elem + ">"
	}
	return "array<" + a.Elem + ": " + strings.Join(a.Words, ", ") + ">"
}

func (a DenseAttr) String() string {
	var b strings.Builder
	if a.Splat {
		b.WriteString(a.Words[0])
	} else if len(a.Words) > 0 {
		a.nest(&b, 0, a.Words)
	}
	return fmt.Sprintf("dense<%s> : %s", b.String(), a.Type)
}

// nest prints elements with one pair of brackets for each dim.
func (a DenseAttr) nest(b *strings.Builder, dim int, words []string) {
	if dim == len(a.Type.Shape) {
		b.WriteString(words[0])
		return
	}
	n := a.Type.Shape[dim]
	size := len(words) / n
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		a.nest(b, dim+1, words[i*size:(i+1)*size])
	}
	b.WriteByte(']')
}

func (a EnumAttr) String() string { return "#stablehlo<" + a.Kind + " " + a.Value + ">" }

func (a StructAttr) String() string { return "#stablehlo." + a.Kind + "<" + attrWords(a.Fields) + ">" }

// Field returns the attribute with a name, or nil.
func (a StructAttr) Field(name string) Attr {
	for _, f := range a.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

func (a ConvAttr) String() string {
	side := func(words []string) string { return "[" + strings.Join(words, ", ") + "]" }
	return "#stablehlo.conv<" + side(a.In) + "x" + side(a.Kernel) + "->" + side(a.Out) + ">"
}

func attrWords(attrs []NamedAttr) string {
	words := make([]string, len(attrs))
	for i, a := range attrs {
		words[i] = a.Name
		if a.Value != nil {
			words[i] += " = " + a.Value.String()
		}
	}
	return strings.Join(words, ", ")
}
