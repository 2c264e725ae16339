package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ReadChatTemplate reads a model directory's chat template as transformers does: chat_template.jinja, else
// that of tokenizer_config.json. It returns nil if there is none. A file that is not empty replaces both.
func ReadChatTemplate(dir, file string) (*ChatTemplate, error) {
	tokens, text, err := tokenizerConfig(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil {
		return nil, err
	}
	path := file
	if path == "" {
		path = filepath.Join(dir, "chat_template.jinja")
	}
	own, err := os.ReadFile(path)
	switch {
	case err == nil:
		text = string(own)
	case file != "" || !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("serve: chat template: %w", err)
	}
	if text == "" {
		return nil, nil
	}
	return NewChatTemplate(text, tokens)
}

// tokenizerConfig returns the special tokens and the chat template of tokenizer_config.json.
func tokenizerConfig(path string) (tokens map[string]any, template string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	var raw map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &raw)
	}
	if err != nil {
		return nil, "", fmt.Errorf("serve: %s: %w", path, err)
	}
	tokens = map[string]any{}
	for _, name := range []string{"bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token",
		"mask_token"} {
		if token, ok := specialToken(raw[name]); ok {
			tokens[name] = token
		}
	}
	template, err = namedTemplate(raw["chat_template"])
	if err != nil {
		return nil, "", fmt.Errorf("serve: %s: chat_template: %w", path, err)
	}
	return tokens, template, nil
}

// specialToken returns a token that is given as a string, or as an object with one.
func specialToken(raw json.RawMessage) (string, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
	}
	var object struct {
		Content *string `json:"content"`
	}
	if json.Unmarshal(raw, &object) == nil && object.Content != nil {
		return *object.Content, true
	}
	return "", false
}

// namedTemplate returns a template; of several named ones, that with the name default.
func namedTemplate(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var several []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &several); err != nil {
		return "", errors.New("want a text, or a list of objects with name and template")
	}
	for _, t := range several {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", fmt.Errorf("of %d templates none is called default: name a file with --chat-template",
		len(several))
}
