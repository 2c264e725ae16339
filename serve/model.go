package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/galley-ml/galley/internal/jinja"
	"github.com/galley-ml/galley/serve/engine"
)

// Text is a tokenizer: it encodes text to tokens and decodes them.
type Text interface {
	Encode(text string) []int32
	Decode(ids []int32) string
}

// Model is a model to serve.
type Model struct {
	// Name is the model's name in requests.
	Name   string
	Engine *engine.Engine
	Text   Text
	// Plain encodes without the special tokens that the tokenizer adds, for chat templates, which write them;
	// nil means Text.
	Plain Text
	// Chat is the chat template; nil if the model has none.
	Chat *ChatTemplate
	// Defaults are the sampling parameters that a request may override, Stop the tokens that end an answer.
	Defaults engine.Sampling
	Stop     []int32
	Created  time.Time
	// Special reports whether a token is not text, such as an end token; nil means that none is special.
	Special func(id int32) bool

	grammars grammars
	users    sync.WaitGroup
	metrics  *modelMetrics
}

func (m *Model) plain() Text {
	if m.Plain != nil {
		return m.Plain
	}
	return m.Text
}

// GenerationConfig is the content of generation_config.json; fields that it leaves out are nil.
type GenerationConfig struct {
	DoSample    *bool    `json:"do_sample"`
	Temperature *float64 `json:"temperature"`
	TopK        *int     `json:"top_k"`
	TopP        *float64 `json:"top_p"`
	MinP        *float64 `json:"min_p"`
	Repetition  *float64 `json:"repetition_penalty"`
	EOS         tokenIDs `json:"eos_token_id"`
}

// tokenIDs is one token id or several.
type tokenIDs []int32

func (t *tokenIDs) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	var one int32
	if json.Unmarshal(text, &one) == nil {
		*t = tokenIDs{one}
		return nil
	}
	return json.Unmarshal(text, (*[]int32)(t))
}

// ReadGenerationConfig reads generation_config.json of a directory; a missing file is not an error.
func ReadGenerationConfig(dir string) (GenerationConfig, error) {
	var c GenerationConfig
	path := filepath.Join(dir, "generation_config.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("serve: %s: %w", path, err)
	}
	return c, nil
}

// Apply returns the sampling parameters with the file's settings. A file with do_sample false means greedy
// decoding.
func (c GenerationConfig) Apply(s engine.Sampling) engine.Sampling {
	set(&s.Temperature, c.Temperature)
	set(&s.TopK, c.TopK)
	set(&s.TopP, c.TopP)
	set(&s.MinP, c.MinP)
	set(&s.Repetition, c.Repetition)
	if c.DoSample != nil && !*c.DoSample {
		s.Temperature = 0
	}
	return s
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// StopTokens returns the file's stop tokens, or else those of the model.
func (c GenerationConfig) StopTokens(model []int32) []int32 {
	if len(c.EOS) == 0 {
		return model
	}
	out := slices.Clone(model)
	for _, id := range c.EOS {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// ChatTemplate renders a conversation as a prompt.
type ChatTemplate struct {
	template *jinja.Template
	// tokens are the special tokens that templates refer to, such as bos_token.
	tokens map[string]any
	tools  toolFormat
}

// NewChatTemplate parses a template. tokens are the special tokens that it may refer to.
func NewChatTemplate(text string, tokens map[string]any) (*ChatTemplate, error) {
	t, err := jinja.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("serve: chat template: %w", err)
	}
	return &ChatTemplate{t, tokens, formatOf(text)}, nil
}

// Render returns the prompt of a conversation, up to where the answer begins.
func (c *ChatTemplate) Render(messages []any, tools []any, more map[string]any) (string, error) {
	values := map[string]any{"messages": messages, "add_generation_prompt": true, "tools": nil}
	if len(tools) > 0 {
		values["tools"] = tools
	}
	for _, m := range []map[string]any{c.tokens, more} {
		for name, v := range m {
			values[name] = v
		}
	}
	return c.template.Render(values)
}
