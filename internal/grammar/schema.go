package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/jinja"
)

// Schema returns the JSON values of a JSON schema. Properties come in the schema's order, and no others than
// it names unless additionalProperties is a schema. What cannot be kept to is an error.
func Schema(text []byte) (*Grammar, error) {
	root, err := jinja.FromJSON(text)
	if err != nil {
		return nil, err
	}
	s := &schema{jsonRules: newJSON(), root: root, refs: map[string]int{}}
	e, err := s.value(root, "schema", 0)
	if err != nil {
		return nil, err
	}
	return s.build(e)
}

type schema struct {
	*jsonRules
	root any
	refs map[string]int
}

// annotations say nothing of what is valid; format is one unless a validator is told otherwise.
var annotations = []string{"title", "description", "default", "examples", "$schema", "$id", "$comment",
	"$defs",
	"definitions", "deprecated", "readOnly", "writeOnly", "format", "strict"}

// keywords are the rest, by the type that they belong to.
var keywords = map[string][]string{
	"object":  {"properties", "required", "additionalProperties"},
	"array":   {"items", "minItems", "maxItems"},
	"string":  {"minLength", "maxLength", "pattern"},
	"integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
}

func (s *schema) value(v any, path string, depth int) (expr, error) {
	if depth > 64 {
		return nil, fmt.Errorf("%s: it is nested too deep", path)
	}
	if b, ok := v.(bool); ok && b {
		return refExpr(s.jsonRules.value), nil
	}
	d, ok := v.(*jinja.Dict)
	if !ok {
		return nil, fmt.Errorf("%s: want an object", path)
	}
	if ref, ok := d.Get("$ref"); ok {
		return s.ref(ref, path, depth)
	}
	if values, ok := d.Get("enum"); ok {
		return s.enum(values, path)
	}
	if v, ok := d.Get("const"); ok {
		return s.enum([]any{v}, path)
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf"} {
		if list, ok := d.Get(name); ok {
			return s.several(d, name, list, path, depth)
		}
	}
	return s.typed(d, path, depth)
}

// ref returns a schema elsewhere in the document, which may be the one around it.
func (s *schema) ref(v any, path string, depth int) (expr, error) {
	name, _ := v.(string)
	if r, ok := s.refs[name]; ok {
		return refExpr(r), nil
	}
	at := s.root
	if name != "#" {
		parts, ok := strings.CutPrefix(name, "#/")
		if !ok {
			return nil, fmt.Errorf("%s: $ref %q: want one that begins with #/", path, name)
		}
		for _, p := range strings.Split(parts, "/") {
			d, ok := at.(*jinja.Dict)
			if ok {
				at, ok = d.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(p))
			}
			if !ok {
				return nil, fmt.Errorf("%s: $ref %q: it is not there", path, name)
			}
		}
	}
	r := s.rule()
	s.refs[name] = r
	e, err := s.value(at, name, depth+1)
	if err != nil {
		return nil, err
	}
	s.define(r, e)
	return refExpr(r), nil
}

func (s *schema) enum(v any, path string) (expr, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("%s: enum: want a list of values", path)
	}
	var a altExpr
	for _, x := range list {
		text, err := compact(x)
		if err != nil {
			return nil, fmt.Errorf("%s: enum: %w", path, err)
		}
		a = append(a, literal(text))
	}
	return a, nil
}

// compact returns a value as JSON without blanks.
func compact(v any) (string, error) {
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(v)
		return strings.TrimSuffix(b.String(), "\n"), err
	}
	return "", errors.New("only texts, numbers, true, false and null are supported")
}

func (s *schema) several(d *jinja.Dict, name string, v any, path string, depth int) (expr, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("%s: %s: want a list of schemas", path, name)
	}
	if name == "allOf" && len(list) > 1 {
		return nil, fmt.Errorf("%s: allOf of %d schemas is not supported: want one", path, len(list))
	}
	if err := s.onlyKnown(d, path, name, "type"); err != nil {
		return nil, err
	}
	var a altExpr
	for i, x := range list {
		e, err := s.value(x, fmt.Sprintf("%s.%s[%d]", path, name, i), depth+1)
		if err != nil {
			return nil, err
		}
		a = append(a, e)
	}
	return a, nil
}

// onlyKnown refuses keywords that would not be kept to.
func (s *schema) onlyKnown(d *jinja.Dict, path string, known ...string) error {
	all, _ := jinja.Keys(d)
	for _, k := range all {
		if !slices.Contains(known, k) && !slices.Contains(annotations, k) {
			return fmt.Errorf("%s: keyword %q is not supported here", path, k)
		}
	}
	return nil
}

// typed returns a schema with a type, or several, or none, which is any value.
func (s *schema) typed(d *jinja.Dict, path string, depth int) (expr, error) {
	var types []string
	switch t, ok := d.Get("type"); t := t.(type) {
	case string:
		types = []string{t}
	case []any:
		for _, x := range t {
			name, _ := x.(string)
			types = append(types, name)
		}
	default:
		if ok {
			return nil, fmt.Errorf("%s: type: want a text or a list of texts", path)
		}
		for name, words := range keywords { // one that speaks of properties means objects
			if name != "integer" && slices.ContainsFunc(words,
				func(w string) bool { _, has := d.Get(w); return has }) {
				types = append(types, name)
			}
		}
		if slices.Sort(types); len(types) == 0 {
			return refExpr(s.jsonRules.value), s.onlyKnown(d, path)
		}
	}
	known := []string{"type"}
	for _, t := range types {
		if t != "integer" || !slices.Contains(types, "number") { // of fractions no bound is kept
			known = append(known, keywords[t]...)
		}
	}
	if err := s.onlyKnown(d, path, known...); err != nil {
		return nil, err
	}
	var a altExpr
	for _, t := range types {
		e, err := s.one(t, d, path, depth)
		if err != nil {
			return nil, err
		}
		a = append(a, e)
	}
	return a, nil
}

func (s *schema) one(kind string, d *jinja.Dict, path string, depth int) (expr, error) {
	switch kind {
	case "object":
		return s.objectOf(d, path, depth)
	case "array":
		return s.arrayOf(d, path, depth)
	case "string":
		return s.textOf(d, path)
	case "number":
		return refExpr(s.number), nil
	case "integer":
		return s.integerOf(d, path)
	case "boolean":
		return altExpr{literal("true"), literal("false")}, nil
	case "null":
		return literal("null"), nil
	}
	return nil, fmt.Errorf("%s: type %q: want object, array, string, number, integer, boolean or null", path,
		kind)
}

// bounds returns two keywords that are numbers of elements; -1 is no upper one.
func bounds(d *jinja.Dict, path, least, most string) (lo, hi int, err error) {
	hi = -1
	for name, to := range map[string]*int{least: &lo, most: &hi} {
		v, ok := d.Get(name)
		if !ok {
			continue
		}
		n, isInt := v.(int64)
		if !isInt || n < 0 || n > 4096 {
			return 0, 0, fmt.Errorf("%s: %s: want a number from 0 to 4096", path, name)
		}
		*to = int(n)
	}
	if hi >= 0 && lo > hi {
		return 0, 0, fmt.Errorf("%s: %s %d is more than %s %d", path, least, lo, most, hi)
	}
	return lo, hi, nil
}

func (s *schema) arrayOf(d *jinja.Dict, path string, depth int) (expr, error) {
	lo, hi, err := bounds(d, path, "minItems", "maxItems")
	if err != nil {
		return nil, err
	}
	var item expr = refExpr(s.jsonRules.value)
	if v, ok := d.Get("items"); ok {
		if item, err = s.value(v, path+".items", depth+1); err != nil {
			return nil, err
		}
	}
	return s.list("[", item, lo, hi, "]"), nil
}

func (s *schema) textOf(d *jinja.Dict, path string) (expr, error) {
	lo, hi, err := bounds(d, path, "minLength", "maxLength")
	if err != nil {
		return nil, err
	}
	p, ok := d.Get("pattern")
	if !ok {
		return seqExpr{literal(`"`), repeatExpr{refExpr(s.char), lo, hi}, literal(`"`)}, nil
	}
	pattern, _ := p.(string)
	if lo > 0 || hi >= 0 {
		return nil, fmt.Errorf("%s: pattern with minLength or maxLength is not supported", path)
	}
	if !strings.HasPrefix(pattern, "^") || !strings.HasSuffix(pattern, "$") ||
		strings.ContainsAny(pattern, `"\`) {
		return nil, fmt.Errorf("%s: pattern %q: want one from ^ to $ without quotes and backslashes", path, pattern)
	}
	e, err := regex(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r := classes(pattern); r != "" {
		return nil, fmt.Errorf("%s: pattern %q: %s", path, pattern, r)
	}
	return seqExpr{literal(`"`), e, literal(`"`)}, nil
}

// classes says why a pattern may match characters that a JSON text must escape.
func classes(pattern string) string {
	if strings.Contains(pattern, "[^") || strings.Contains(pattern, ".") {
		return ". and [^ may match what a JSON text must escape: list the characters"
	}
	return ""
}

// objectOf returns the properties in their order, of which optional ones may be left out.
func (s *schema) objectOf(d *jinja.Dict, path string, depth int) (expr, error) {
	props, _ := d.Get("properties")
	properties, _ := props.(*jinja.Dict)
	required := map[string]bool{}
	if v, ok := d.Get("required"); ok {
		list, isList := v.([]any)
		if !isList {
			return nil, fmt.Errorf("%s: required: want a list of names", path)
		}
		for _, x := range list {
			name, _ := x.(string)
			required[name] = true
		}
	}
	var names []string
	if properties != nil {
		names, _ = jinja.Keys(properties)
	}
	for name := range required {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%s: required %q is not among the properties", path, name)
		}
	}
	extra, has := d.Get("additionalProperties")
	if len(names) == 0 {
		return s.mapOf(extra, has, path, depth)
	}
	if more, ok := extra.(*jinja.Dict); ok && more != nil {
		return nil, fmt.Errorf("%s: properties with a schema for additionalProperties are not supported", path)
	}
	pairs := make([]expr, len(names))
	for i, name := range names {
		v, _ := properties.Get(name)
		e, err := s.value(v, path+"."+name, depth+1)
		if err != nil {
			return nil, err
		}
		key, err := compact(name)
		if err != nil {
			return nil, err
		}
		pairs[i] = refExpr(s.sub(seqExpr{literal(key), s.colon(), e}).rule)
	}
	return seqExpr{literal("{"), s.blank(), s.members(names, pairs, required), s.blank(), literal("}")}, nil
}

// mapOf returns an object whose names are free.
func (s *schema) mapOf(extra any, has bool, path string, depth int) (expr, error) {
	if has && extra == false {
		return seqExpr{literal("{"), s.blank(), literal("}")}, nil
	}
	if _, ok := extra.(*jinja.Dict); !ok {
		return refExpr(s.object), nil
	}
	e, err := s.value(extra, path+".additionalProperties", depth+1)
	if err != nil {
		return nil, err
	}
	return s.list("{", seqExpr{refExpr(s.text), s.colon(), e}, 0, -1, "}"), nil
}

// members returns what may follow from each property on, with and without one before it, from the last to the
// first.
func (s *schema) members(names []string, pairs []expr, required map[string]bool) expr {
	after, first := expr(emptyExpr{}), expr(emptyExpr{})
	for i := len(names) - 1; i >= 0; i-- {
		with := seqExpr{s.comma(), pairs[i], after}
		begin := seqExpr{pairs[i], after}
		if required[names[i]] {
			after, first = refExpr(s.sub(with).rule), refExpr(s.sub(begin).rule)
			continue
		}
		after, first = refExpr(s.sub(altExpr{with, after}).rule), refExpr(s.sub(altExpr{begin, first}).rule)
	}
	return first
}
