package serve

import (
	"encoding/json"

	"github.com/galley-ml/galley/serve/engine"
)

// responseWriter writes the answer of POST /v1/responses: one message with one text.
type responseWriter struct {
	id, item string
	created  int64
	name     string
	request  *responseRequest

	number int // of the next event
	text   string
	finish engine.Finish
}

// object returns the response object in its current state.
func (c *responseWriter) object(status string, output []any, u *usage) map[string]any {
	q := c.request
	o := map[string]any{
		"id":                   c.id,
		"object":               "response",
		"created_at":           c.created,
		"status":               status,
		"model":                c.name,
		"output":               output,
		"error":                nil,
		"incomplete_details":   nil,
		"instructions":         q.Instructions,
		"max_output_tokens":    q.MaxTokens,
		"temperature":          q.Temperature,
		"top_p":                q.TopP,
		"tools":                []any{},
		"tool_choice":          "auto",
		"parallel_tool_calls":  true,
		"previous_response_id": nil,
		"store":                false,
		"metadata":             map[string]any{},
		"usage":                nil,
	}
	if given(q.Metadata) {
		o["metadata"] = q.Metadata
	}
	if status == "incomplete" {
		o["incomplete_details"] = map[string]string{"reason": "max_output_tokens"}
	}
	if u != nil {
		o["usage"] = map[string]any{
			"input_tokens":          u.Prompt,
			"output_tokens":         u.Completion,
			"total_tokens":          u.Total,
			"input_tokens_details":  map[string]int{"cached_tokens": u.Details.Cached},
			"output_tokens_details": map[string]int{"reasoning_tokens": 0},
		}
	}
	return o
}

// statusOf returns the status of a response by its finish reason.
func statusOf(f engine.Finish) string {
	if f == engine.FinishLength {
		return "incomplete"
	}
	return "completed"
}

func (c *responseWriter) part(text string) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}}
}

func (c *responseWriter) message(status string, content ...any) map[string]any {
	if content == nil {
		content = []any{}
	}
	return map[string]any{
		"type":    "message",
		"id":      c.item,
		"status":  status,
		"role":    "assistant",
		"content": content,
	}
}

// event sends one event of the stream.
func (c *responseWriter) event(s *stream, kind string, fields map[string]any) error {
	fields["type"], fields["sequence_number"] = kind, c.number
	c.number++
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return s.line("event: " + kind + "\ndata: " + string(text))
}

// events sends several events, with the indices of the text in those that concern it.
func (c *responseWriter) events(s *stream, all ...responseEvent) error {
	for _, e := range all {
		if e.place {
			e.fields["output_index"], e.fields["content_index"], e.fields["item_id"] = 0, 0, c.item
		}
		if err := c.event(s, e.kind, e.fields); err != nil {
			return err
		}
	}
	return nil
}

type responseEvent struct {
	kind   string
	place  bool
	fields map[string]any
}

func (c *responseWriter) begin(s *stream) error {
	s.quiet = true
	started := c.object("in_progress", []any{}, nil)
	return c.events(s, responseEvent{"response.created", false, map[string]any{"response": started}},
		responseEvent{"response.in_progress", false, map[string]any{"response": started}},
		responseEvent{"response.output_item.added", false,
			map[string]any{"output_index": 0, "item": c.message("in_progress")}},
		responseEvent{"response.content_part.added", true, map[string]any{"part": c.part("")}})
}

func (c *responseWriter) token(s *stream, _ int, t engine.Token) error {
	c.text += t.Text
	if t.Finish != "" {
		c.finish = t.Finish
	}
	if t.Text == "" {
		return nil
	}
	return c.events(s, responseEvent{"response.output_text.delta", true,
		map[string]any{"delta": t.Text, "logprobs": []any{}}})
}

// end writes the last events of the stream, always with usage.
func (c *responseWriter) end(s *stream, u *usage) error {
	status := statusOf(c.finish)
	whole := c.message(status, c.part(c.text))
	return c.events(s,
		responseEvent{"response.output_text.done", true, map[string]any{"text": c.text, "logprobs": []any{}}},
		responseEvent{"response.content_part.done", true, map[string]any{"part": c.part(c.text)}},
		responseEvent{"response.output_item.done", false, map[string]any{"output_index": 0, "item": whole}},
		responseEvent{"response." + status, false, map[string]any{"response": c.object(status, []any{whole}, u)}})
}

func (c *responseWriter) whole(choices []answer, u usage) any {
	a := choices[0]
	status := statusOf(a.finish)
	return c.object(status, []any{c.message(status, c.part(a.text))}, &u)
}
