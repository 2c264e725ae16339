package serve

import (
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/galley-ml/galley/serve/engine"
)

// chatRequest is the body of POST /v1/chat/completions.
type chatRequest struct {
	params
	Messages       []json.RawMessage `json:"messages"`
	MaxTokens      *int              `json:"max_tokens"`
	MaxCompletion  *int              `json:"max_completion_tokens"`
	LogProbs       bool              `json:"logprobs"`
	TopLogProbs    *int              `json:"top_logprobs"`
	Tools          []json.RawMessage `json:"tools"`
	ToolChoice     json.RawMessage   `json:"tool_choice"`
	Parallel       *bool             `json:"parallel_tool_calls"`
	TemplateValues map[string]any    `json:"chat_template_kwargs"`
	Modalities     []string          `json:"modalities"`
	Audio          json.RawMessage   `json:"audio"`
	Effort         string            `json:"reasoning_effort"`
	Verbosity      string            `json:"verbosity"`
	Prediction     json.RawMessage   `json:"prediction"`
	WebSearch      json.RawMessage   `json:"web_search_options"`
	Functions      json.RawMessage   `json:"functions"`
	FunctionCall   json.RawMessage   `json:"function_call"`

	toolNames map[string]bool
	choice    toolChoice
}

// refuse returns an error if the request uses an unsupported field.
func (c *chatRequest) refuse() error {
	for param, raw := range map[string]json.RawMessage{"audio": c.Audio, "prediction": c.Prediction,
		"web_search_options": c.WebSearch, "functions": c.Functions, "function_call": c.FunctionCall} {
		if len(raw) > 0 && string(raw) != "null" {
			return badRequest("%s: it is not supported", param).at(param, "unsupported_parameter")
		}
	}
	for _, x := range c.Modalities {
		if x != "text" {
			return badRequest("modalities: got %q, want text", x).at("modalities", "unsupported_parameter")
		}
	}
	choice, err := readToolChoice(c.ToolChoice)
	if err == nil && choice.must && len(c.Tools) == 0 {
		err = badRequest("tool_choice: want tools with it").at("tool_choice", "")
	}
	c.choice = choice
	return err
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var c chatRequest
	if err := read(r, &c); err != nil {
		fail(w, err)
		return
	}
	m, err := s.model(c.Model)
	if err != nil {
		fail(w, err)
		return
	}
	defer m.users.Done()
	q, err := s.chatRequest(r, m, &c)
	if err != nil {
		fail(w, err)
		return
	}
	to := &chatWriter{id: newID("chatcmpl-"), created: time.Now().Unix(), model: m, name: m.shown(c.Model),
		logProbs: c.LogProbs, n: q.N}
	if len(c.toolNames) > 0 {
		to.format, to.tools, to.streams = m.Chat.tools, c.toolNames, make([]toolStream, q.N)
	}
	s.answerRequests(w, r, m, &c.params, []engine.Request{q}, to)
}

func (s *Server) chatRequest(r *http.Request, m *Model, c *chatRequest) (engine.Request, error) {
	if err := c.refuse(); err != nil {
		return engine.Request{}, err
	}
	q, err := c.request(m, s.tenant(r, c.User))
	if err != nil {
		return q, err
	}
	if q.Prompt, err = m.chatPrompt(c); err != nil {
		return q, err
	}
	if c.choice.must {
		if q.Masks != nil {
			return q, badRequest("tool_choice: a call has the form of its tool: want no other form").at("tool_choice",
				"")
		}
		if q.Masks, err = c.choice.masks(m, c.Tools); err != nil {
			return q, err
		}
	}
	if c.TopLogProbs != nil {
		if !c.LogProbs {
			return q, badRequest("top_logprobs: want logprobs with it").at("top_logprobs", "")
		}
		if *c.TopLogProbs < 0 || *c.TopLogProbs > 20 {
			return q, badRequest("top_logprobs: got %d, want 0 to 20", *c.TopLogProbs).at("top_logprobs", "")
		}
		q.Sampling.Top = *c.TopLogProbs
	}
	asked := c.MaxCompletion
	if asked == nil {
		asked = c.MaxTokens
	}
	return q, s.limit(m, &q, "messages", asked, 0)
}

// chatPrompt returns the tokens of a conversation.
func (m *Model) chatPrompt(c *chatRequest) ([]int32, error) {
	if m.Chat == nil {
		return nil, badRequest("model %q has no chat template: use /v1/completions, or start the server with "+
			"--chat-template", m.Name).at("messages", "")
	}
	if len(c.Messages) == 0 {
		return nil, badRequest("messages: want at least one").at("messages", "")
	}
	var messages []any
	for i, raw := range c.Messages {
		message, err := readMessage(raw)
		if err != nil {
			return nil, badRequest("messages.%d: %v", i, err).at("messages", "")
		}
		messages = append(messages, message)
	}
	tools, names, err := readTools(c.Tools)
	if err != nil {
		return nil, badRequest("%v", err).at("tools", "")
	}
	if c.toolNames = names; c.choice.never {
		tools, c.toolNames = nil, nil
	}
	text, err := m.Chat.Render(messages, tools, c.TemplateValues)
	if err != nil {
		return nil, badRequest("chat template: %v", err).at("messages", "")
	}
	ids := m.plain().Encode(text)
	if len(ids) == 0 {
		return nil, badRequest("messages: the chat template makes no text of them").at("messages", "")
	}
	return ids, nil
}

// chatWriter writes the answers of chat completions.
type chatWriter struct {
	id       string
	created  int64
	model    *Model
	name     string // of the model or adapter
	logProbs bool
	n        int

	format  toolFormat
	tools   map[string]bool
	streams []toolStream
}

type chatMessage struct {
	Role    string     `json:"role,omitempty"`
	Content *string    `json:"content,omitempty"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  *chatMessage  `json:"message,omitempty"`
	Delta    *chatMessage  `json:"delta,omitempty"`
	LogProbs *chatLogProbs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

type chatLogProbs struct {
	Content []chatLogProb `json:"content"`
}

type chatLogProb struct {
	chatToken
	Top []chatToken `json:"top_logprobs"`
}

type chatToken struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

func (c *chatWriter) object(kind string, choices []chatChoice, u *usage) map[string]any {
	o := map[string]any{"id": c.id, "object": kind, "created": c.created, "model": c.name, "choices": choices}
	if u != nil {
		o["usage"] = u
	}
	return o
}

// called sets the tool calls of a message, and the finish reason tool_calls.
func (c *chatChoice) called(m *chatMessage, calls []toolCall) {
	if len(calls) > 0 {
		finish := "tool_calls"
		m.Calls, c.Finish = calls, &finish
	}
}

const chatChunk = "chat.completion.chunk"

func (c *chatWriter) begin(s *stream) error {
	for i := range c.n {
		empty := ""
		delta := &chatMessage{Role: "assistant", Content: &empty}
		if err := s.send(c.object(chatChunk, []chatChoice{{Index: i, Delta: delta}}, nil)); err != nil {
			return err
		}
	}
	return nil
}

func (c *chatWriter) token(s *stream, i int, t engine.Token) error {
	choice := chatChoice{Index: i, Delta: &chatMessage{}, Finish: finishOf(t.Finish)}
	text := t.Text
	if c.format != noTools {
		var calls []toolCall
		text, calls = c.streams[i].add(c.format, c.tools, text, t.Finish != "")
		for k := range calls {
			calls[k].Index = &k
		}
		choice.called(choice.Delta, calls)
	}
	if text != "" {
		choice.Delta.Content = &text
	}
	if c.logProbs {
		choice.LogProbs = c.probabilities([]engine.Token{t})
	}
	return s.send(c.object(chatChunk, []chatChoice{choice}, nil))
}

func (c *chatWriter) end(s *stream, u *usage) error {
	if u == nil {
		return nil
	}
	return s.send(c.object(chatChunk, []chatChoice{}, u))
}

func (c *chatWriter) whole(choices []answer, u usage) any {
	out := make([]chatChoice, len(choices))
	for i, a := range choices {
		text, calls := a.text, []toolCall(nil)
		if c.format != noTools {
			text, calls = new(toolStream).add(c.format, c.tools, text, true)
		}
		out[i] = chatChoice{Index: i, Finish: finishOf(a.finish),
			Message: &chatMessage{Role: "assistant", Content: &text}}
		out[i].called(out[i].Message, calls)
		if c.logProbs {
			out[i].LogProbs = c.probabilities(a.tokens)
		}
	}
	return c.object("chat.completion", out, &u)
}

func (c *chatWriter) probabilities(tokens []engine.Token) *chatLogProbs {
	p := &chatLogProbs{Content: []chatLogProb{}}
	for _, t := range tokens {
		x := chatLogProb{chatToken: c.probability(t.ID, t.LogProb), Top: []chatToken{}}
		for _, top := range t.Top {
			x.Top = append(x.Top, c.probability(top.ID, top.LogProb))
		}
		p.Content = append(p.Content, x)
	}
	return p
}

// probability returns a token with its bytes, which may be only part of a character.
func (c *chatWriter) probability(id int32, logProb float64) chatToken {
	text := c.model.Text.Decode([]int32{id})
	t := chatToken{Token: text, LogProb: logProb, Bytes: []int{}}
	for _, b := range []byte(text) {
		t.Bytes = append(t.Bytes, int(b))
	}
	if !utf8.ValidString(text) {
		t.Token = string([]rune(text))
	}
	return t
}
