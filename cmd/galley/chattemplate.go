package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/jinja"
	"github.com/galley-ml/galley/serve"
)

// chatTemplate returns the chat template of a file, else of the model in a directory, else ChatML, and its
// name for messages.
func chatTemplate(dir, file string) (data.ChatTemplate, string, error) {
	t, err := serve.ReadChatTemplate(dir, file)
	switch {
	case err != nil:
		return nil, "", err
	case t == nil:
		return data.ChatML{}, "ChatML", nil
	case file != "":
		return modelTemplate{t}, "the template of " + file, nil
	}
	return modelTemplate{t}, "the model's own template", nil
}

// modelTemplate renders conversations for training with the template that serving uses.
type modelTemplate struct{ *serve.ChatTemplate }

// Render implements data.ChatTemplate.
func (t modelTemplate) Render(messages []data.Message, prompt bool) (string, error) {
	values := make([]any, len(messages))
	for i, m := range messages {
		text, err := json.Marshal(m)
		if err != nil {
			return "", err
		}
		if values[i], err = jinja.FromJSON(text); err != nil {
			return "", err
		}
	}
	text, err := t.ChatTemplate.Render(values, nil, map[string]any{"add_generation_prompt": prompt})
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	return text, nil
}

// chatMLText is ChatML as a Jinja template.
const chatMLText = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// keepChatTemplate writes the chat template of training beside the trained model, so that it is served with
// the same one: that of a file, or of the original model's directory, or ChatML.
func keepChatTemplate(to, from, file string) error {
	const own, config = "chat_template.jinja", "tokenizer_config.json"
	write := func(name string, text []byte) error { return os.WriteFile(filepath.Join(to, name), text, 0o644) }
	t, err := serve.ReadChatTemplate(from, file)
	if err != nil {
		return err
	}
	if text, err := os.ReadFile(filepath.Join(from, config)); err == nil { // it also has the special tokens
		if err := write(config, text); err != nil {
			return err
		}
	}
	switch {
	case t == nil:
		return write(own, []byte(chatMLText))
	case file == "":
		file = filepath.Join(from, own)
	}
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil // the template is in tokenizer_config.json
	}
	if err != nil {
		return err
	}
	return write(own, text)
}
