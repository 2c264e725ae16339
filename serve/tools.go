package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/jinja"
)

// toolFormat is the syntax in which a model writes tool calls.
type toolFormat uint8

const (
	noTools toolFormat = iota
	// taggedTools is <tool_call>{"name": ..., "arguments": ...}</tool_call>, of Hermes and Qwen.
	taggedTools
	// listedTools is [TOOL_CALLS] [{"name": ..., "arguments": ...}], of Mistral.
	listedTools
	// bareTools is {"name": ..., "parameters": ...} and nothing else, of Llama 3.
	bareTools
)

// formatOf returns the format that a chat template describes.
func formatOf(template string) toolFormat {
	switch {
	case strings.Contains(template, "<tool_call>"):
		return taggedTools
	case strings.Contains(template, "[TOOL_CALLS]"):
		return listedTools
	}
	return bareTools
}

// openings returns the texts that begin a call: anywhere may be at any place in the answer, the others only
// at its beginning.
func (f toolFormat) openings() (anywhere string, begin []string) {
	switch f {
	case taggedTools:
		return "<tool_call>", nil
	case listedTools:
		return "[TOOL_CALLS]", []string{"[{"} // the tag is a special token, which is not part of the text
	}
	return "<|python_tag|>", []string{"{"}
}

// split divides a text into the part that can be sent and the part that may be a call or its beginning. shown
// says whether some of the answer was sent before.
func (f toolFormat) split(text string, shown bool) (content, held string) {
	anywhere, begin := f.openings()
	if i := strings.Index(text, anywhere); i >= 0 {
		return text[:i], text[i:]
	}
	if trimmed := strings.TrimLeft(text, " \n\t"); !shown && len(begin) > 0 {
		for _, b := range begin {
			if strings.HasPrefix(trimmed, b) || strings.HasPrefix(b, trimmed) {
				return "", text
			}
		}
	}
	for n := min(len(anywhere)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, anywhere[:n]) {
			return text[:len(text)-n], text[len(text)-n:]
		}
	}
	return text, ""
}

// toolCall is a call in OpenAI's format.
type toolCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function toolFunction `json:"function"`
}

type toolFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// calls parses the calls of a text that split has held back; nil if it has none. known are the names of the
// tools: a model may write JSON that is no call.
func (f toolFormat) calls(text string, known map[string]bool) []toolCall {
	var raw [][]byte
	switch f {
	case taggedTools:
		for _, part := range strings.Split(text, "<tool_call>")[1:] {
			inner, _, _ := strings.Cut(part, "</tool_call>")
			raw = append(raw, []byte(inner))
		}
	case listedTools:
		var list []json.RawMessage
		text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "[TOOL_CALLS]"))
		if json.Unmarshal([]byte(text), &list) != nil {
			return nil
		}
		for _, x := range list {
			raw = append(raw, x)
		}
	default:
		raw = objects(strings.TrimPrefix(strings.TrimSpace(text), "<|python_tag|>"))
	}
	var out []toolCall
	for _, x := range raw {
		c, ok := readCall(x, known)
		if !ok {
			return nil
		}
		out = append(out, c)
	}
	return out
}

// objects returns JSON objects that are separated by semicolons; nil if the text is something else.
func objects(text string) (out [][]byte) {
	for text = strings.TrimSpace(text); text != ""; {
		d := json.NewDecoder(strings.NewReader(text))
		var x json.RawMessage
		if d.Decode(&x) != nil {
			return nil
		}
		out = append(out, x)
		text = strings.TrimLeft(strings.TrimSpace(text[d.InputOffset():]), "; \n")
	}
	return out
}

func readCall(text []byte, known map[string]bool) (toolCall, bool) {
	var c struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
	}
	if json.Unmarshal(text, &c) != nil || !known[c.Name] {
		return toolCall{}, false
	}
	if c.Arguments == nil {
		c.Arguments = c.Parameters
	}
	arguments := "{}"
	var inner string
	var b bytes.Buffer
	switch {
	case c.Arguments == nil || string(c.Arguments) == "null":
	case json.Unmarshal(c.Arguments, &inner) == nil: // the arguments are a JSON string already
		arguments = inner
	case json.Compact(&b, c.Arguments) == nil:
		arguments = b.String()
	}
	return toolCall{ID: newID("call_"), Type: "function", Function: toolFunction{c.Name, arguments}}, true
}

// readTools returns the tools of a request as values for a template, and the names of their
// functions.
func readTools(raw []json.RawMessage) (tools []any, names map[string]bool, err error) {
	names = map[string]bool{}
	for i, x := range raw {
		v, err := jinja.FromJSON(x)
		if err != nil {
			return nil, nil, fmt.Errorf("tools.%d: %w", i, err)
		}
		tool, _ := v.(*jinja.Dict)
		if tool == nil {
			return nil, nil, fmt.Errorf("tools.%d: want an object", i)
		}
		f, _ := tool.Get("function")
		function, _ := f.(*jinja.Dict)
		if function == nil {
			return nil, nil, fmt.Errorf("tools.%d.function: want an object", i)
		}
		name, _ := function.Get("name")
		text, ok := name.(string)
		if !ok || text == "" {
			return nil, nil, fmt.Errorf("tools.%d.function.name: want a text", i)
		}
		names[text] = true
		tools = append(tools, v)
	}
	return tools, names, nil
}

// toolStream is the part of an answer that is held back because it may be a call.
type toolStream struct {
	held  string
	shown bool
}

// add returns the text that can be sent after a further piece of the answer, and at its end the calls.
func (s *toolStream) add(f toolFormat, known map[string]bool, piece string,
	end bool) (content string, calls []toolCall) {
	content, s.held = f.split(s.held+piece, s.shown)
	if end {
		if calls = f.calls(s.held, known); calls == nil {
			content += s.held
		}
		s.held = ""
	}
	s.shown = s.shown || strings.TrimSpace(content) != ""
	return content, calls
}
