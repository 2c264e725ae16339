package serve_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley/serve"
	"github.com/galley-ml/galley/serve/engine"
)

const offered = `"tools": [
	{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
		"place": {"$ref": "#/$defs/place"}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
		"required": ["place", "days"], "$defs": {"place": {"type": "string", "maxLength": 5}}}}},
	{"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {},
		"additionalProperties": false}}}]`

// TestToolChoice: a model that knows nothing calls the tool that it must, with arguments of its schema, in
// the form that its template teaches, whole and streamed.
func TestToolChoice(t *testing.T) {
	for _, sign := range []string{"<tool_call>", "[TOOL_CALLS]", "none"} {
		m := newModel(t, "small", engine.Config{})
		chat, err := serve.NewChatTemplate("{# "+sign+" #}{% for m in messages %}{{ m.content }}{% endfor %}", nil)
		if err != nil {
			t.Fatal(err)
		}
		m.Chat = chat
		_, url := listening(t, serve.Config{Models: []*serve.Model{m}})
		ask := func(seed int, choice string) (name, arguments, finish string) {
			t.Helper()
			body := fmt.Sprintf(`{"messages": [{"role": "user", "content": "x"}], "seed": %d, "max_tokens": 200,
				%s, "tool_choice": %s}`, seed, offered, choice)
			status, _, out := post(t, url+"/v1/chat/completions", body)
			if status != 200 {
				t.Fatalf("%s: %d %s", choice, status, out)
			}
			a := parse(t, out)
			call := func(keys ...any) string {
				path := append([]any{"choices", 0, "message", "tool_calls", 0, "function"}, keys...)
				text, _ := at(a, path...).(string)
				return text
			}
			return call("name"), call("arguments"), at(a, "choices", 0, "finish_reason").(string)
		}
		for seed := range 5 {
			name, arguments, finish := ask(seed, `{"type": "function", "function": {"name": "weather"}}`)
			var v struct {
				Place *string
				Days  int
			}
			if json.Unmarshal([]byte(arguments), &v) != nil || v.Place == nil || v.Days < 1 || v.Days > 7 ||
				name != "weather" || finish != "tool_calls" {
				t.Errorf("%s: %s %s, %s", sign, name, arguments, finish)
			}
			if name, arguments, _ = ask(seed, `"required"`); name != "weather" &&
				(name != "time" || arguments != "{}") {
				t.Errorf("%s: required: %s %s", sign, name, arguments)
			}
		}
		_, _, out := post(t, url+"/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}],
			"stream": true, "max_tokens": 200, `+offered+`, "tool_choice": {"type": "function", "function": {"name": "time"}}}`)
		if !strings.Contains(out, `"name":"time","arguments":"{}"`) || strings.Contains(out, `tool_call>`) {
			t.Errorf("%s: streamed: %s", sign, out)
		}
	}
}

// TestToolChoiceMistakes: a choice that cannot be made names the field.
func TestToolChoiceMistakes(t *testing.T) {
	_, url := start(t, serve.Config{}, engine.Config{})
	for _, fields := range []string{
		offered + `, "tool_choice": "always"`, `"tool_choice": "required"`,
		offered + `, "tool_choice": {"type": "function", "function": {"name": "nobody"}}`,
		offered + `, "tool_choice": "required", "response_format": {"type": "json_object"}`,
	} {
		status, _, out := post(t, url+"/v1/chat/completions",
			`{"messages": [{"role": "user", "content": "x"}], `+fields+`}`)
		if status != 400 || at(parse(t, out), "error", "param") != "tool_choice" {
			t.Errorf("%s: %d %s", fields, status, out)
		}
	}
}
