package ir

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// String prints the program; Parse reads it back.
func (f *Func) String() string { return f.Text(Notes{}) }

// Notes are printed after a program's types and results, such as @[dp,_]: each is empty or begins with @ and
// has neither blanks nor commas outside of brackets. ParseNoted parses them.
type Notes struct {
	Value  func(v *Value) string
	Result func(i int) string
}

func (n Notes) value(v *Value) string {
	if n.Value == nil {
		return v.typ.String()
	}
	return v.typ.String() + n.Value(v)
}

// Text prints the program with notes.
func (f *Func) Text(notes Notes) string {
	var b strings.Builder
	fmt.Fprintf(&b, "func %s(", f.name)
	for i, p := range f.params {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%%%d", p.id)
		if p.name != "" {
			fmt.Fprintf(&b, " %q", p.name)
		}
		fmt.Fprintf(&b, ": %s", notes.value(p))
	}
	b.WriteString(") {\n")
	for _, n := range f.nodes {
		fmt.Fprintf(&b, "  %s\n", n.text(notes))
	}
	b.WriteString("  return")
	for i, v := range f.results {
		fmt.Fprintf(&b, " %%%d", v.id)
		if notes.Result != nil {
			b.WriteString(notes.Result(i))
		}
	}
	b.WriteString("\n}\n")
	return b.String()
}

// String prints one line: results = op{attributes} operands : types  # place.
func (n *Node) String() string { return n.text(Notes{}) }

func (n *Node) text(notes Notes) string {
	var b strings.Builder
	types := make([]string, len(n.out))
	for i, v := range n.out {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%%%d", v.id)
		types[i] = notes.value(v)
	}
	fmt.Fprintf(&b, " = %s%s : %s", FormatOp(n.op), refs(n.in), strings.Join(types, ", "))
	if n.pos != "" && n.pos != unplaced {
		fmt.Fprintf(&b, "  # %s", n.pos)
	}
	return b.String()
}

func refs(vs []*Value) string {
	var b strings.Builder
	for _, v := range vs {
		fmt.Fprintf(&b, " %%%d", v.id)
	}
	return b.String()
}

// FormatOp prints an op with those of its attributes that are not zero: transpose{perm=[1,0]}.
func FormatOp(op Op) string {
	var attrs []string
	v := reflect.ValueOf(op)
	for i := range fieldCount(v) {
		field := v.Type().Field(i)
		if field.Anonymous || v.Field(i).IsZero() {
			continue
		}
		attrs = append(attrs, attrName(field.Name)+"="+formatAttr(v.Field(i)))
	}
	if len(attrs) == 0 {
		return op.Name()
	}
	return op.Name() + "{" + strings.Join(attrs, " ") + "}"
}

func fieldCount(v reflect.Value) int {
	if v.Kind() != reflect.Struct {
		return 0
	}
	return v.NumField()
}

// attrName returns a field's name in program text, with its leading capitals in lower case: TransX is transX,
// DType is dtype.
func attrName(field string) string {
	n := 0
	for n < len(field) && 'A' <= field[n] && field[n] <= 'Z' {
		n++
	}
	return strings.ToLower(field[:n]) + field[n:]
}

func formatAttr(v reflect.Value) string {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if err == nil {
			return string(text)
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int64, reflect.Int32:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint64, reflect.Uint32, reflect.Uint8:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Slice:
		words := make([]string, v.Len())
		for i := range words {
			words[i] = formatAttr(v.Index(i))
		}
		return "[" + strings.Join(words, ",") + "]"
	}
	panic(fmt.Sprintf("ir: attribute of type %v has no text", v.Type()))
}
