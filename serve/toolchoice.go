package serve

import (
	"encoding/json"
	"fmt"

	"github.com/galley-ml/galley/internal/grammar"
	"github.com/galley-ml/galley/serve/engine"
)

// toolChoice is a request's tool_choice; by default the model decides.
type toolChoice struct {
	never, must bool
	name        string // the function that must be called; empty is any
}

// readToolChoice reads the field tool_choice.
func readToolChoice(raw json.RawMessage) (c toolChoice, err error) {
	var word string
	var object struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch {
	case len(raw) == 0 || string(raw) == "null" || string(raw) == `"auto"`:
	case json.Unmarshal(raw, &word) == nil && word == "none":
		c.never = true
	case word == "required":
		c.must = true
	case word == "" && json.Unmarshal(raw, &object) == nil && object.Type == "function" &&
		object.Function.Name != "":
		c.must, c.name = true, object.Function.Name
	default:
		err = badRequest("tool_choice: got %s, want auto, none, required or "+
			`{"type": "function", "function": {"name": …}}`, raw).at("tool_choice", "unsupported_parameter")
	}
	return c, err
}

// config returns the syntax of calls in a format.
func (f toolFormat) config() grammar.CallConfig {
	switch f {
	case taggedTools:
		return grammar.CallConfig{Begin: "<tool_call>\n", End: "\n</tool_call>", Key: "arguments"}
	case listedTools:
		return grammar.CallConfig{Begin: "[", End: "]", Key: "arguments"}
	}
	return grammar.CallConfig{Key: "parameters"}
}

// callsForm is the source of a grammar of kind calls, as JSON.
type callsForm struct {
	Format toolFormat
	Calls  []grammar.Call
}

// masks constrains an answer to a tool call, if the request requires one.
func (c toolChoice) masks(m *Model, tools []json.RawMessage) (func() engine.Mask, error) {
	f := callsForm{Format: m.Chat.tools}
	for _, raw := range tools {
		var tool struct {
			Function struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
			} `json:"function"`
		}
		if err := json.Unmarshal(raw, &tool); err != nil {
			return nil, badRequest("tools: %v", err).at("tools", "")
		}
		if c.name == "" || c.name == tool.Function.Name {
			f.Calls = append(f.Calls, grammar.Call{Name: tool.Function.Name, Arguments: tool.Function.Parameters})
		}
	}
	if len(f.Calls) == 0 {
		return nil, badRequest("tool_choice: no tool %q is among the request's tools", c.name).
			at("tool_choice", "")
	}
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	compiled, err := m.grammars.get(m, form{"calls", string(text)})
	if err != nil {
		return nil, badRequest("tools: %v", err).at("tools", "")
	}
	return func() engine.Mask { return compiled.Matcher() }, nil
}

// parseCalls returns the grammar of a form of kind calls.
func parseCalls(text string) (*grammar.Grammar, error) {
	var f callsForm
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return nil, fmt.Errorf("calls: %w", err)
	}
	return grammar.Calls(f.Format.config(), f.Calls)
}
