package serve

import (
	"testing"
)

// TestToolCalls: calls are found however the answer is cut into pieces, and what is no call is shown.
func TestToolCalls(t *testing.T) {
	known := map[string]bool{"weather": true, "time": true}
	for _, c := range []struct {
		name    string
		format  toolFormat
		text    string
		content string
		calls   []string
	}{
		{"tagged", taggedTools, "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": " +
			"\"Köln\"}}\n" +
			"</tool_call>\n<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>",
			"Let me see.\n", []string{"weather", `{"place":"Köln"}`, "time", "{}"}},
		{"tagged, cut", taggedTools, `<tool_call>{"name": "weather", "arg`, `<tool_call>{"name": "weather", "arg`,
			nil},
		{"tagged, none", taggedTools, "1 < 2 and <tool", "1 < 2 and <tool", nil},
		{"listed", listedTools, `[TOOL_CALLS] [{"name": "time", "arguments": {"zone": "UTC"}, "id": "abcdefghi"}]`,
			"",
			[]string{"time", `{"zone":"UTC"}`}},
		{"listed without its tag", listedTools, ` [{"name": "time", "arguments": "{\"zone\":1}"}]`, "",
			[]string{"time", `{"zone":1}`}},
		{"listed, none", listedTools, "[1, 2]", "[1, 2]", nil},
		{"bare", bareTools, "\n" + `{"name": "weather", "parameters": {"place": "x"}}; {"name": "time", "parameters": {}}`, "",
			[]string{"weather", `{"place":"x"}`, "time", "{}"}},
		{"bare, tag", bareTools, `<|python_tag|>{"name": "time", "parameters": null}`, "", []string{"time", "{}"}},
		{"bare, other JSON", bareTools, `{"name": "nobody"}`, `{"name": "nobody"}`, nil},
		{"bare, text", bareTools, `It is {"name": "time"}`, `It is {"name": "time"}`, nil},
	} {
		for _, size := range []int{1, 3, 1000} {
			s, content, calls := &toolStream{}, "", []toolCall(nil)
			for rest := c.text; ; {
				piece := rest[:min(size, len(rest))]
				rest = rest[len(piece):]
				shown, found := s.add(c.format, known, piece, rest == "")
				content, calls = content+shown, append(calls, found...)
				if rest == "" {
					break
				}
			}
			var got []string
			for _, x := range calls {
				got = append(got, x.Function.Name, x.Function.Arguments)
			}
			if content != c.content || len(got) != len(c.calls) {
				t.Errorf("%s by %d: got %q, %q, want %q, %q", c.name, size, content, got, c.content, c.calls)
				continue
			}
			for i := range got {
				if got[i] != c.calls[i] {
					t.Errorf("%s by %d: got %q, want %q", c.name, size, got, c.calls)
				}
			}
		}
	}
}

// FuzzToolCalls: no answer is lost or panics, whatever it looks like.
func FuzzToolCalls(f *testing.F) {
	f.Add("a<tool_call>{}</tool_call>", uint8(1))
	f.Add(`[{"name": "time"}]`, uint8(2))
	f.Add(`{"name": "time", "parameters": 3};{`, uint8(3))
	f.Fuzz(func(t *testing.T, text string, kind uint8) {
		format := toolFormat(kind%3) + 1
		s, content, calls := &toolStream{}, "", []toolCall(nil)
		for i := range len(text) {
			shown, found := s.add(format, map[string]bool{"time": true}, text[i:i+1], i == len(text)-1)
			content, calls = content+shown, append(calls, found...)
		}
		if len(calls) == 0 && content != text {
			t.Errorf("got %q of %q", content, text)
		}
	})
}
