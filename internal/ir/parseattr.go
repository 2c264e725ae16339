package ir

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// attrs parses name=value pairs up to the closing brace into a copy of op.
func (p *parser) attrs(op Op) (Op, error) {
	if reflect.TypeOf(op).Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s has no attributes", op.Name())
	}
	v := reflect.New(reflect.TypeOf(op)).Elem()
	v.Set(reflect.ValueOf(op))
	for {
		p.scan.space()
		if p.scan.byte('}') {
			return v.Interface().(Op), nil
		}
		name := p.scan.ident()
		field, ok := attrField(v, name)
		if !ok {
			return nil, fmt.Errorf("%s has no attribute %q", op.Name(), name)
		}
		if !p.scan.byte('=') {
			return nil, fmt.Errorf("%s: attribute %s: want =", op.Name(), name)
		}
		if err := p.scan.attr(field); err != nil {
			return nil, fmt.Errorf("%s: attribute %s: %w", op.Name(), name, err)
		}
	}
}

func attrField(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if f := v.Type().Field(i); !f.Anonymous && attrName(f.Name) == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// attr parses one value into field.
func (s *scanner) attr(field reflect.Value) error {
	if u, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(s.plain()))
	}
	switch field.Kind() {
	case reflect.Slice:
		return s.attrSlice(field)
	case reflect.String:
		text, err := s.quotedIfAny()
		field.SetString(text)
		return err
	}
	return setPlain(field, s.plain())
}

// plain returns the text up to the end of a value.
func (s *scanner) plain() string {
	n := strings.IndexAny(s.rest(), " ,]}")
	if n < 0 {
		n = len(s.rest())
	}
	text := s.rest()[:n]
	s.i += n
	return text
}

func setPlain(field reflect.Value, text string) error {
	var err error
	switch field.Kind() {
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		field.SetBool(b)
	case reflect.Int, reflect.Int64, reflect.Int32:
		var n int64
		n, err = strconv.ParseInt(text, 10, field.Type().Bits())
		field.SetInt(n)
	case reflect.Uint64, reflect.Uint32, reflect.Uint8:
		var n uint64
		n, err = strconv.ParseUint(text, 10, field.Type().Bits())
		field.SetUint(n)
	case reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(text, 64)
		field.SetFloat(x)
	default:
		return fmt.Errorf("type %v has no text", field.Type())
	}
	if err != nil {
		return fmt.Errorf("got %q, want %v", text, field.Kind())
	}
	return nil
}

func (s *scanner) attrSlice(field reflect.Value) error {
	if !s.byte('[') {
		return fmt.Errorf("got %q, want [", s.rest())
	}
	list := reflect.MakeSlice(field.Type(), 0, 4)
	for !s.byte(']') {
		if list.Len() > 0 && !s.byte(',') {
			return fmt.Errorf("got %q, want a comma or ]", s.rest())
		}
		elem := reflect.New(field.Type().Elem()).Elem()
		if err := s.attr(elem); err != nil {
			return err
		}
		list = reflect.Append(list, elem)
	}
	field.Set(list)
	return nil
}
