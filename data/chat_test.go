package data

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/tokenizer"
)

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "chat.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// learned returns the text of the labels that count, with a bar between what does not follow on.
func learned(tok Tokenizer, ids, labels []int32) string {
	text, open := "", false
	var run []int32
	flush := func() {
		if len(run) > 0 {
			if open {
				text += "|"
			}
			text, open, run = text+tok.Decode(run), true, nil
		}
	}
	for _, l := range labels {
		if l == IgnoreLabel {
			flush()
			continue
		}
		run = append(run, l)
	}
	flush()
	return text
}

// TestChats: of every form of a line the assistant's words count, to the end of their turn, and nothing else.
func TestChats(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{`{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Grüß Gott"},
			{"role": "assistant", "content": "Ahoy"}, {"role": "user", "content": "B"}, {"role": "assistant", "content": "Bye"}]}`,
			"Ahoy<|im_end|>\n|Bye<|im_end|>\n"},
		{`{"conversations": [{"from": "human", "value": "A"}, {"from": "gpt", "value": "ü"}]}`, "ü<|im_end|>\n"},
		{`{"prompt": "2+2=", "completion": "4"}`, "4</s>"},
		{`{"prompt": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "old"}, {"role": "user", "content": "B"}],
			"completion": [{"role": "assistant", "content": "new"}]}`, "new<|im_end|>\n"},
	} {
		c, err := ReadChats([]string{write(t, strings.ReplaceAll(test.line, "\n", " "))},
			ChatConfig{Tokenizer: Bytes{}, End: "</s>", Seq: 500})
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		ids, labels := make([]int32, c.Size(0)), make([]int32, c.Size(0))
		c.Fill(0, ids, labels)
		if got := learned(Bytes{}, ids, labels); got != test.want {
			t.Errorf("%s: learned %q, want %q", test.line, got, test.want)
		}
	}
}

// TestChatsWithATokenizer: tokens count by where they begin, in texts of several bytes a character.
func TestChatsWithATokenizer(t *testing.T) {
	path := "../../shared/fixtures/tokenizer/tokenizer.json"
	tok, err := tokenizer.Load(path)
	if err != nil {
		t.Skip("no recorded tokenizer beside the module")
	}
	line := `{"messages": [{"role": "user", "content": "Grüß Gott, 你好"}, {"role": "assistant", "content": "Ahoy, 世界!"}]}`
	c, err := ReadChats([]string{write(t, line)}, ChatConfig{Tokenizer: tok, Seq: 500})
	if err != nil {
		t.Fatal(err)
	}
	ids, labels := make([]int32, c.Size(0)), make([]int32, c.Size(0))
	c.Fill(0, ids, labels)
	if got := learned(tok, ids, labels); got != "Ahoy, 世界!<|im_end|>\n" {
		t.Errorf("learned %q", got)
	}
}

func TestChatErrors(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{`{"text": "a"}`, "chat.jsonl:1: want messages, or a prompt and a completion"},
		{`{"messages": "a"}`, "messages: want a list"},
		{`{"messages": [{"role": "user"}]}`, "message 1: want a role and a content"},
		{`{"messages": [{"role": "user", "content": "a"}]}`, "no message of the assistant"},
		{`{"messages": 3}`, "want a text, or a list"},
		{`{"prompt": "a", "completion": ""}`, "its answer has no tokens"},
		{`{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "user", "content": "b"}]}`,
			"no message of the assistant"},
		{`{`, "chat.jsonl:1: unexpected end"},
	} {
		_, err := ReadChats([]string{write(t, test.line)}, ChatConfig{Tokenizer: Bytes{}, Seq: 99})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q in it", test.line, err, test.want)
		}
	}
	skipped := 0
	c, err := ReadChats([]string{write(t, `{"a": 1}`+"\n"+`{"prompt": "ab", "completion": "cdefgh"}`+"\n"+
		`{"prompt": "abcdefghij", "completion": "c"}`)},
		ChatConfig{Tokenizer: Bytes{}, Seq: 4, Skip: func(error) { skipped++ }})
	if err != nil || c.Len() != 1 || skipped != 1 || c.Cut != 2 || c.Left != 1 || c.Size(0) != 4 {
		t.Errorf("got %+v, %d skipped, %v", c, skipped, err)
	}
}

// TestPairs: both answers follow the same prompt, in one batch with what a reference says of them.
func TestPairs(t *testing.T) {
	p, err := ReadPreferences([]string{write(t, `{"prompt": "ab", "chosen": "cd", "rejected": "e"}
{"chosen": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], "rejected": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "z"}]}`)},
		ChatConfig{Tokenizer: Bytes{}, End: ".", Seq: 64})
	if err != nil || p.Len() != 2 {
		t.Fatalf("got %v, %v", p, err)
	}
	p.Reference = [][2]float32{{-1, -2}, {-3, -4}}
	b, err := NewPairs(p, 64, LoaderConfig{Batch: 2, Order: Sequential})
	if err != nil {
		t.Fatal(err)
	}
	batch := b.From(0)
	ids, labels := array.Data[int32](batch[0]), array.Data[int32](batch[1])
	var got []string
	for i := range 4 {
		got = append(got, learned(Bytes{}, ids[64*i:64*i+64], labels[64*i:64*i+64]))
	}
	if want := `["cd." "e." "y<|im_end|>\n" "z<|im_end|>\n"]`; fmt.Sprintf("%q", got) != want {
		t.Errorf("got %q, want %s", got, want)
	}
	if batch[2].String() != "f32[2,2]{-1 -2 -3 -4}" {
		t.Errorf("reference: got %v", batch[2])
	}
	if _, err := ReadPreferences([]string{write(t, `{"prompt": "a", "chosen": "b"}`)},
		ChatConfig{Tokenizer: Bytes{}, Seq: 9}); err == nil {
		t.Error("no rejected: got no error")
	}
}

func FuzzChat(f *testing.F) {
	f.Add(`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`)
	f.Add(`{"prompt": "a", "completion": "b"}`)
	f.Add(`{"prompt": [{"from": "human", "value": "a"}], "completion": []}`)
	f.Fuzz(func(t *testing.T, line string) {
		m, err := parseChat([]byte(line), ChatConfig{Tokenizer: Bytes{}, Seq: 9})
		if err != nil {
			return
		}
		for _, a := range m.answers {
			if a[0] < 0 || a[1] < a[0] || a[1] > len(m.text) {
				t.Errorf("answer %v of %d bytes", a, len(m.text))
			}
		}
	})
}
