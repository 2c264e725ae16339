package serve_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/serve"
	"github.com/galley-ml/galley/serve/engine"
)

// TestResponses: a response has the text that a chat of the same conversation gets, whole and as events; what
// is not known here is refused with the field at fault.
func TestResponses(t *testing.T) {
	_, url := start(t, serve.Config{}, engine.Config{})
	_, _, chat := post(t, url+"/v1/chat/completions", `{"messages": [{"role": "system", "content": "Be brief."},
		{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 9}`)
	want := at(parse(t, chat), "choices", 0, "message", "content").(string)
	const asked = `"instructions": "Be brief.", "temperature": 0, "max_output_tokens": 9`
	for _, input := range []string{`"Hi"`, `[{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]`} {
		status, _, text := post(t, url+"/v1/responses", `{"model": "small", "input": `+input+`, `+asked+`}`)
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		a := parse(t, text)
		if got := at(a, "output", 0, "content", 0, "text"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if at(a, "status") != "incomplete" || at(a, "incomplete_details", "reason") != "max_output_tokens" ||
			at(a, "usage", "output_tokens") != 9.0 {
			t.Errorf("got %s", text)
		}
	}
	_, _, events := post(t, url+"/v1/responses", `{"input": "Hi", "stream": true, `+asked+`}`)
	var kinds []string
	var deltas strings.Builder
	var last any
	for i, e := range strings.Split(strings.TrimSpace(events), "\n\n") {
		kind, data, ok := strings.Cut(strings.TrimPrefix(e, "event: "), "\ndata: ")
		if !ok {
			t.Fatalf("not an event: %q", e)
		}
		last = parse(t, data)
		if at(last, "type") != kind || at(last, "sequence_number") != float64(i) {
			t.Errorf("event %d: got %s", i, data)
		}
		if kind == "response.output_text.delta" {
			deltas.WriteString(at(last, "delta").(string))
			continue
		}
		kinds = append(kinds, strings.TrimPrefix(kind, "response."))
	}
	if got := strings.Join(kinds, " "); got != "created in_progress output_item.added content_part.added "+
		"output_text.done content_part.done output_item.done incomplete" {
		t.Errorf("got events %s", got)
	}
	if deltas.String() != want || at(last, "response", "usage", "output_tokens") != 9.0 {
		t.Errorf("got %q, %v, want %q", deltas.String(), last, want)
	}
	for param, body := range map[string]string{"tools": `"input": "x", "tools": [{}]`, "input": `"input": 3`,
		"previous_response_id": `"input": "x", "previous_response_id": "resp_1"`} {
		status, _, text := post(t, url+"/v1/responses", `{`+body+`}`)
		if status != 400 || at(parse(t, text), "error", "param") != param {
			t.Errorf("%s: got %d %s", param, status, text)
		}
	}
}
