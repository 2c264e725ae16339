package grammar_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/galley-ml/galley/internal/grammar"
)

var schemas = flag.Int("schemas", 300, "how many random schemas TestSchemas tries")

// vocabulary returns all bytes, and pieces that cut across JSON's signs and characters.
func vocabulary() *grammar.Vocabulary {
	texts := make([]string, 257)
	for i := range 256 {
		texts[i] = string([]byte{byte(i)})
	}
	texts[256] = "" // the end
	return grammar.NewVocabulary(append(texts, `{"`, `": `, `", "`, `"}`, `]}`, "tru", "e,", "12", `["`, "é",
		"\xe2\x82",
		"null", "abc", `"a"`, "}}", "\n  "))
}

var pieces = []string{`{"`, `": `, `", "`, `"}`, `]}`, "tru", "e,", "12", `["`, "é", "\xe2\x82", "null",
	"abc", `"a"`,
	"}}", "\n  "}

func textOf(id int) string {
	if id > 256 {
		return pieces[id-257]
	}
	return string([]byte{byte(id)})
}

// write lets a random writer write a text; after some tokens it prefers what closes.
func write(t *testing.T, g *grammar.Grammar, r *rand.Rand) string {
	t.Helper()
	c, err := grammar.Compile(g, vocabulary(), []int32{256})
	if err != nil {
		t.Fatal(err)
	}
	m := c.Matcher()
	var b strings.Builder
	for n := 0; !m.Done(); n++ {
		var ids []int
		for i, w := range m.Allowed() {
			for j := range 64 {
				if w>>j&1 == 1 {
					ids = append(ids, i*64+j)
				}
			}
		}
		if len(ids) == 0 || n > 5000 {
			t.Fatalf("nothing can follow %q", b.String())
		}
		id := ids[r.IntN(len(ids))]
		if n > 30 {
			for _, closing := range []int{256, '"', '}', ']', '0', ':', ','} {
				if slices.Contains(ids, closing) && (closing != ',' || len(ids) == 1) {
					id = closing
					break
				}
			}
		}
		m.Take(int32(id))
		if id != 256 {
			b.WriteString(textOf(id))
		}
	}
	return b.String()
}

// random returns a random schema.
func random(r *rand.Rand, depth int) map[string]any {
	kinds := []string{"string", "number", "integer", "boolean", "null", "enum", "object", "array", "anyOf",
		"pattern", "any"}
	if depth == 0 {
		kinds = kinds[:6]
	}
	switch k := kinds[r.IntN(len(kinds))]; k {
	case "any":
		return map[string]any{}
	case "enum":
		return map[string]any{"enum": []any{"a\"b", 1, nil, true, "é", 2.5}[:1+r.IntN(6)]}
	case "pattern":
		return map[string]any{"type": "string", "pattern": "^[a-c]{2,4}(x|é)?$"}
	case "anyOf":
		return map[string]any{"anyOf": []any{random(r, depth-1), random(r, depth-1)}}
	case "array":
		lo := r.IntN(3)
		return map[string]any{"type": "array", "items": random(r, depth-1), "minItems": lo,
			"maxItems": lo + r.IntN(3)}
	case "string":
		lo := r.IntN(3)
		return map[string]any{"type": "string", "minLength": lo, "maxLength": lo + r.IntN(5)}
	case "object":
		props, required := map[string]any{}, []any{}
		for i := range r.IntN(4) {
			name := fmt.Sprintf("k%d", i)
			props[name] = random(r, depth-1)
			if r.IntN(2) == 0 {
				required = append(required, name)
			}
		}
		return map[string]any{"type": "object", "properties": props, "required": required,
			"additionalProperties": false}
	case "integer":
		lo := r.IntN(4000) - 2000
		return map[string]any{"type": k, "minimum": lo, "maximum": lo + r.IntN(1<<r.IntN(12))}
	default:
		return map[string]any{"type": k}
	}
}

// TestSchemas: whatever fits the masks is JSON that the schema allows.
func TestSchemas(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range *schemas {
		s := random(r, 3)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		g, err := grammar.Schema(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		out := write(t, g, r)
		var v any
		if err := json.Unmarshal([]byte(out), &v); err != nil || !utf8.ValidString(out) {
			t.Fatalf("schema %d %s: %q: %v", i, text, out, err)
		}
		var back map[string]any
		json.Unmarshal(text, &back)
		if err := valid(back, v); err != nil {
			t.Fatalf("schema %d %s: %q: %v", i, text, out, err)
		}
	}
}

// valid returns a plain validator of what random makes.
func valid(s map[string]any, v any) error {
	if e, ok := s["enum"]; ok {
		if !slices.ContainsFunc(e.([]any), func(x any) bool { return x == v }) {
			return fmt.Errorf("%v is not among %v", v, e)
		}
		return nil
	}
	if a, ok := s["anyOf"]; ok {
		for _, x := range a.([]any) {
			if valid(x.(map[string]any), v) == nil {
				return nil
			}
		}
		return fmt.Errorf("%v fits none of %v", v, a)
	}
	wrong := fmt.Errorf("%v is no %v", v, s["type"])
	switch s["type"] {
	case "string":
		x, ok := v.(string)
		n := utf8.RuneCountInString(x)
		if p, has := s["pattern"]; has {
			if !ok || !regexp.MustCompile(p.(string)).MatchString(x) {
				return wrong
			}
		} else if lo, hi := s["minLength"].(float64), s["maxLength"].(float64); !ok || n < int(lo) || n > int(hi) {
			return wrong
		}
	case "number", "integer":
		x, ok := v.(float64)
		if !ok || s["type"] == "integer" &&
			(x != float64(int64(x)) || x < s["minimum"].(float64) || x > s["maximum"].(float64)) {
			return wrong
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return wrong
		}
	case "null":
		if v != nil {
			return wrong
		}
	case "array":
		x, ok := v.([]any)
		if !ok || len(x) < int(s["minItems"].(float64)) || len(x) > int(s["maxItems"].(float64)) {
			return wrong
		}
		for _, e := range x {
			if err := valid(s["items"].(map[string]any), e); err != nil {
				return err
			}
		}
	case "object":
		x, ok := v.(map[string]any)
		if !ok {
			return wrong
		}
		for _, name := range s["required"].([]any) {
			if _, has := x[name.(string)]; !has {
				return fmt.Errorf("%v is missing", name)
			}
		}
		for name, e := range x {
			p, known := s["properties"].(map[string]any)[name]
			if !known {
				return fmt.Errorf("%s is no property", name)
			}
			if err := valid(p.(map[string]any), e); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestGrammars: JSON at large, patterns, choices, and a schema that is part of itself.
func TestGrammars(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		g, err := grammar.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if out := write(t, g, r); json.Unmarshal([]byte(out), &object) != nil {
			t.Fatalf("not an object: %q", out)
		}
		const pattern = `(?i:yes|no) [^a-y\n]{2}(-?[0-9]+)*é?`
		if g, err = grammar.Regex(pattern); err != nil {
			t.Fatal(err)
		}
		if out := write(t, g, r); !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(out) {
			t.Fatalf("%q does not match", out)
		}
		if g, err = grammar.Choice([]string{"red", "reddish", "blue"}); err != nil {
			t.Fatal(err)
		}
		if out := write(t, g, r); !slices.Contains([]string{"red", "reddish", "blue"}, out) {
			t.Fatalf("%q is no choice", out)
		}
		g, err = grammar.Schema([]byte(`{"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
			"name": {"type": "string"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
			"required": ["name", "next"], "additionalProperties": false}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if out := write(t, g, r); json.Unmarshal([]byte(out), &object) != nil || object["name"] == nil {
			t.Fatalf("not a node: %q", out)
		}
	}
}

// TestRefused: what cannot be kept to is named.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"type": "number", "minimum": 3}`:                          `keyword "minimum" is not supported`,
		`{"type": ["integer", "number"], "minimum": 3}`:             `keyword "minimum" is not supported`,
		`{"type": "integer", "minimum": 3, "exclusiveMaximum": 3}`:  "no integer",
		`{"type": "integer", "maximum": "3"}`:                       "maximum: want a number",
		`{"type": "thing"}`:                                         `type "thing"`,
		`{"type": "object", "required": ["a"]}`:                     `required "a"`,
		`{"$ref": "#/$defs/x"}`:                                     "it is not there",
		`{"type": "array", "minItems": 3, "maxItems": 2}`:           "more than",
		`{"properties": {"a": {"type": "string", "pattern": "x"}}}`: "schema.a: pattern",
		`[]`: "want an object", `{`: "not JSON",
	} {
		if _, err := grammar.Schema([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// FuzzSchema: no schema makes the compiler panic.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]}`))
	f.Add([]byte(`{"anyOf": [{"$ref": "#"}, {"const": 1}], "$defs": {}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1000 {
			return
		}
		if g, err := grammar.Schema(text); err == nil {
			if c, err := grammar.Compile(g, vocabulary(), []int32{256}); err == nil {
				c.Matcher().Allowed()
			}
		}
	})
}

func FuzzRegex(f *testing.F) {
	f.Add(`(a|b)*[^\n]{2,3}x?`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 {
			return
		}
		if g, err := grammar.Regex(text); err == nil {
			if c, err := grammar.Compile(g, vocabulary(), nil); err == nil {
				c.Matcher().Allowed()
			}
		}
	})
}
