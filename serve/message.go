package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/galley-ml/galley/internal/jinja"
)

// readMessage decodes one message of a conversation for a template: all of its fields, in their order.
// Content in parts is joined to one text, as templates of language models expect.
func readMessage(raw json.RawMessage) (any, error) {
	v, err := jinja.FromJSON(raw)
	if err != nil {
		return nil, err
	}
	message, ok := v.(*jinja.Dict)
	if !ok {
		return nil, errors.New("want an object")
	}
	role, _ := message.Get("role")
	name, ok := role.(string)
	if !ok {
		return nil, errors.New("role: want a text")
	}
	switch name {
	case "system", "developer", "user", "assistant", "tool":
	default:
		return nil, fmt.Errorf("role: got %q, want system, developer, user, assistant or tool", name)
	}
	content, has := message.Get("content")
	if parts, ok := content.([]any); ok {
		text, err := joinParts(parts)
		if err != nil {
			return nil, err
		}
		message.Set("content", text)
		return message, nil
	}
	if _, ok := content.(string); !ok && (content != nil || !has && name != "assistant") {
		return nil, errors.New("content: want a text, or a list of parts with texts")
	}
	return message, readArguments(message)
}

func joinParts(parts []any) (string, error) {
	var text bytes.Buffer
	for i, p := range parts {
		part, ok := p.(*jinja.Dict)
		if !ok {
			return "", fmt.Errorf("content.%d: want an object", i)
		}
		kind, _ := part.Get("type")
		piece, _ := part.Get("text")
		words, ok := piece.(string)
		if kind != "text" || !ok {
			return "", fmt.Errorf("content.%d: type %v: want text", i, kind)
		}
		text.WriteString(words)
	}
	return text.String(), nil
}

// readArguments parses the arguments of earlier tool calls, which clients send as JSON strings: templates
// serialize them themselves.
func readArguments(message *jinja.Dict) error {
	calls, _ := message.Get("tool_calls")
	list, ok := calls.([]any)
	if !ok {
		return nil
	}
	for i, c := range list {
		call, ok := c.(*jinja.Dict)
		if !ok {
			return fmt.Errorf("tool_calls.%d: want an object", i)
		}
		f, _ := call.Get("function")
		function, ok := f.(*jinja.Dict)
		if !ok {
			return fmt.Errorf("tool_calls.%d.function: want an object", i)
		}
		arguments, _ := function.Get("arguments")
		if text, ok := arguments.(string); ok {
			v, err := jinja.FromJSON([]byte(text))
			if err != nil {
				return fmt.Errorf("tool_calls.%d.function.arguments: %w", i, err)
			}
			function.Set("arguments", v)
		}
	}
	return nil
}
