package data

import (
	"fmt"
	"strings"
	"testing"
)

// TestQuestions: the shapes of common tasks.
func TestQuestions(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		// HellaSwag
		{`{"ctx": "A man", "endings": ["runs", "eats"], "label": "1"}`, `"A man" ["runs" "eats"] 1 false`},
		{`{"question": "Why?", "choices": {"text": ["a", "b", "c"], "label": ["A", "B", "C"]}, "answerKey": "C"}`,
			`"Why?" ["a" "b" "c"] 2 false`}, // ARC
		// PIQA
		{`{"goal": "G", "sol1": "x", "sol2": "y", "label": 1}`, `"G" ["x" "y"] 1 false`},
		// MMLU
		{`{"question": "Q", "choices": ["w", "x", "y", "z"], "answer": "B"}`, `"Q" ["w" "x" "y" "z"] 1 false`},
		// WinoGrande
		{`{"sentence": "S", "option1": "he", "option2": "she", "answer": "2"}`, `"S" ["he" "she"] 1 false`},
		{`{"query": "Q", "choices": ["yes", "no"], "gold": "no"}`, `"Q" ["yes" "no"] 1 false`},
		{`{"question": "2+2=", "answer": "4"}`, `"2+2=" ["4"] 0 true`},
		{`{"prompt": "2+2=", "target": "4"}`, `"2+2=" ["4"] 0 true`},
	} {
		q, err := parseQuestion([]byte(test.line))
		if got := fmt.Sprintf("%q %q %d %v", q.Context, q.Choices, q.Gold, q.Exact); err != nil ||
			got != test.want {
			t.Errorf("%s: got %s, %v, want %s", test.line, got, err, test.want)
		}
	}
	for line, want := range map[string]string{
		`{"answer": "a"}`: "want one of context",
		`{"query": "q", "choices": ["a"], "gold": 0}`:        "two texts or more",
		`{"query": "q", "choices": ["a", "b"], "gold": 2}`:   "gold: got 2",
		`{"query": "q", "choices": ["a", "b"]}`:              "want one of gold",
		`{"query": 3}`:                                       "query: want a text",
		`{"query": "q"}`:                                     "want one of target",
		`{"query": "q", "choices": ["a", "b"], "gold": "c"}`: `got "c"`,
	} {
		if _, err := parseQuestion([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", line, err, want)
		}
	}
}

// TestFollowing: only what follows counts, spaces go with the word behind them, and long contexts lose their
// beginning.
func TestFollowing(t *testing.T) {
	var f Following
	if err := f.Add(Bytes{}, []int32{7}, "abc ", "de", 20); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(Bytes{}, nil, "abcdefgh", " x", 4); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range f.Len() {
		ids, labels := make([]int32, f.Size(i)), make([]int32, f.Size(i))
		f.Fill(i, ids, labels)
		got = append(got, fmt.Sprintf("%q → %q", Bytes{}.Decode(ids), learned(Bytes{}, ids, labels)))
	}
	if want := `["\"\\aabc d\" → \" de\"" "\"fgh \" → \" x\""]`; fmt.Sprintf("%q", got) != want {
		t.Errorf("got %q, want %s", got, want)
	}
	for _, bad := range []struct{ context, follows string }{{"a", ""}, {"", "b"}, {"a", "bcdef"}} {
		if err := f.Add(Bytes{}, nil, bad.context, bad.follows, 4); err == nil {
			t.Errorf("%v: got no error", bad)
		}
	}
}

func FuzzQuestion(f *testing.F) {
	f.Add(`{"ctx": "A", "endings": ["r", "e"], "label": "1"}`)
	f.Add(`{"question": "W", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "B"}`)
	f.Add(`{"goal": "G", "sol1": "x", "sol2": "y", "label": 1}`)
	f.Fuzz(func(t *testing.T, line string) {
		q, err := parseQuestion([]byte(line))
		if err == nil && (q.Gold < 0 || q.Gold >= len(q.Choices)) {
			t.Errorf("gold %d of %d choices", q.Gold, len(q.Choices))
		}
	})
}
