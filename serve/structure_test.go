package serve_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/galley-ml/galley/serve"
	"github.com/galley-ml/galley/serve/engine"
)

// TestStructure: answers keep to the form that is asked for, with guesses and without.
func TestStructure(t *testing.T) {
	for _, speculate := range []int{0, 3} {
		_, url := start(t, serve.Config{}, engine.Config{Speculate: speculate})
		ask := func(seed int, form string) (text, finish string) {
			t.Helper()
			status, _, out := post(
				t,
				url+"/v1/chat/completions",
				fmt.Sprintf(`{"messages": [{"role": "user", "content": "x"}],
				"seed": %d, "max_tokens": 400, %s}`, seed, form),
			)
			if status != 200 {
				t.Fatalf("%d %s", status, out)
			}
			a := parse(t, out)
			return at(a, "choices", 0, "message", "content").(string), at(a, "choices", 0, "finish_reason").(string)
		}
		const schema = `{"type": "object", "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer"},
			"word": {"type": "string", "maxLength": 6}}, "required": ["ok", "n"], "additionalProperties": false}`
		for seed := range 10 {
			text, finish := ask(
				seed,
				`"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": `+schema+`}}`,
			)
			var v struct {
				OK   *bool
				N    *int
				Word string
			}
			if err := json.Unmarshal([]byte(text), &v); err != nil || v.OK == nil || v.N == nil || finish != "stop" {
				t.Errorf("schema: %q, %s, %v", text, finish, err)
			}
			if text, _ = ask(seed, `"guided_choice": ["yes", "no"]`); !slices.Contains([]string{"yes", "no"}, text) {
				t.Errorf("choice: %q", text)
			}
			if text, _ = ask(seed, `"guided_regex": "[a-f]{3}-[0-9]{2}"`); !regexp.MustCompile(`^[a-f]{3}-\d\d$`).
				MatchString(text) {
				t.Errorf("regex: %q", text)
			}
			text, _ = ask(seed, `"guided_grammar": "root ::= x{2} [0-9]\nx ::= \"ab\" | \"c\""`)
			if !regexp.MustCompile(`^(ab|c){2}\d$`).MatchString(text) {
				t.Errorf("grammar: %q", text)
			}
			text, finish = ask(seed, `"response_format": {"type": "json_object"}`)
			if finish == "stop" && !json.Valid([]byte(text)) {
				t.Errorf("json: %q", text)
			}
		}
		for _, form := range []string{`"response_format": {"type": "xml"}`, `"guided_regex": "("`,
			`"guided_json": {"type": "x"}`,
			`"guided_regex": "a", "guided_choice": ["b"]`, `"guided_choice": []`, `"guided_grammar": "root ::= x"`} {
			status, _, out := post(
				t,
				url+"/v1/chat/completions",
				`{"messages": [{"role": "user", "content": "x"}], `+form+`}`,
			)
			if status != 400 || at(parse(t, out), "error", "param") == nil {
				t.Errorf("%s: %d %s", form, status, out)
			}
		}
	}
}
