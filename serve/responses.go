package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/galley-ml/galley/serve/engine"
)

// responseRequest is the body of POST /v1/responses, as far as it is a conversation in and a text out. State
// on the server, and tools, are not supported.
type responseRequest struct {
	Model        string          `json:"model"`
	Input        json.RawMessage `json:"input"`
	Instructions *string         `json:"instructions"`
	MaxTokens    *int            `json:"max_output_tokens"`
	Temperature  *float64        `json:"temperature"`
	TopP         *float64        `json:"top_p"`
	Stream       bool            `json:"stream"`
	Text         *struct {
		Format    *responseTextFormat `json:"format"`
		Verbosity string              `json:"verbosity"`
	} `json:"text"`
	User string `json:"user"`

	// Not supported.
	Previous     *string           `json:"previous_response_id"`
	Conversation json.RawMessage   `json:"conversation"`
	Background   *bool             `json:"background"`
	Tools        []json.RawMessage `json:"tools"`
	ToolChoice   json.RawMessage   `json:"tool_choice"`
	Include      []string          `json:"include"`
	Prompt       json.RawMessage   `json:"prompt"`
	Truncation   string            `json:"truncation"`

	// Accepted, without effect.
	Store            *bool           `json:"store"`
	Metadata         json.RawMessage `json:"metadata"`
	Parallel         *bool           `json:"parallel_tool_calls"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ServiceTier      string          `json:"service_tier"`
	PromptCacheKey   string          `json:"prompt_cache_key"`
	SafetyIdentifier string          `json:"safety_identifier"`
}

// responseTextFormat is like response_format, without its nested json_schema.
type responseTextFormat struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Strict      *bool           `json:"strict"`
}

func (c *responseRequest) refuse() error {
	for param, asked := range map[string]bool{
		"previous_response_id": c.Previous != nil, "background": c.Background != nil && *c.Background,
		"conversation": given(c.Conversation), "prompt": given(c.Prompt), "tools": len(c.Tools) > 0,
		"include": len(c.Include) > 0, "truncation": c.Truncation != "" && c.Truncation != "disabled",
	} {
		if asked {
			return badRequest("%s: it is not supported: responses are not kept, and have no tools: see "+
				"/v1/chat/completions", param).at(param, "unsupported_parameter")
		}
	}
	return nil
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// chat converts the request to a chat request.
func (c *responseRequest) chat() (*chatRequest, error) {
	q := &chatRequest{MaxCompletion: c.MaxTokens}
	if c.Stream { // a stream always includes usage
		q.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	q.Model, q.Temperature, q.TopP, q.User, q.Stream = c.Model, c.Temperature, c.TopP, c.User, c.Stream
	if c.Text != nil && c.Text.Format != nil {
		f := c.Text.Format
		text, err := json.Marshal(map[string]any{"type": f.Type, "json_schema": map[string]any{"name": f.Name,
			"schema": f.Schema}})
		if f.Type != "json_schema" {
			text, err = json.Marshal(map[string]any{"type": f.Type})
		}
		if err == nil {
			err = json.Unmarshal(text, &q.ResponseFormat)
		}
		if err != nil {
			return nil, badRequest("text.format: %v", err).at("text", "")
		}
	}
	if c.Instructions != nil {
		q.add("system", *c.Instructions)
	}
	var one string
	if json.Unmarshal(c.Input, &one) == nil {
		q.add("user", one)
		return q, nil
	}
	var items []responseItem
	if err := json.Unmarshal(c.Input, &items); err != nil || len(items) == 0 {
		return nil, badRequest("input: want a text or a list of messages").at("input", "")
	}
	for i, it := range items {
		text, err := it.text()
		if err != nil {
			return nil, badRequest("input.%d: %v", i, err).at("input", "")
		}
		q.add(it.Role, text)
	}
	return q, nil
}

func (c *chatRequest) add(role, text string) {
	raw, _ := json.Marshal(map[string]string{"role": role, "content": text}) // two strings always marshal
	c.Messages = append(c.Messages, raw)
}

// responseItem is a message of the input.
type responseItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

func (it responseItem) text() (string, error) {
	if it.Type != "" && it.Type != "message" {
		return "", fmt.Errorf("type: got %q, want message", it.Type)
	}
	var one string
	if json.Unmarshal(it.Content, &one) == nil {
		return one, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(it.Content, &parts); err != nil {
		return "", fmt.Errorf("content: want a text, or a list of parts with texts")
	}
	var b strings.Builder
	for i, p := range parts {
		if p.Type != "input_text" && p.Type != "output_text" {
			return "", fmt.Errorf("content.%d: type %q: want input_text or output_text", i, p.Type)
		}
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

// responses handles POST /v1/responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	var c responseRequest
	err := read(r, &c)
	if err == nil {
		err = c.refuse()
	}
	var q *chatRequest
	if err == nil {
		q, err = c.chat()
	}
	var m *Model
	if err == nil {
		m, err = s.model(c.Model)
	}
	if err != nil {
		fail(w, err)
		return
	}
	defer m.users.Done()
	request, err := s.chatRequest(r, m, q)
	if err != nil {
		fail(w, err)
		return
	}
	to := &responseWriter{
		id:      newID("resp_"),
		item:    newID("msg_"),
		created: time.Now().Unix(),
		name:    m.shown(c.Model),
		request: &c,
	}
	s.answerRequests(w, r, m, &q.params, []engine.Request{request}, to)
}
