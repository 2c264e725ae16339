package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTrainIsHuggingFaces trains on the book that the recorded byte-level tokenizer was trained on. The
// project has only its first chapters.
func TestTrainIsHuggingFaces(t *testing.T) {
	book, err := os.ReadFile("../../shared/data/moby-dick.txt")
	if err != nil {
		t.Skip("the whole book is not here: ", err)
	}
	got, err := Train(strings.Lines(string(book)),
		TrainConfig{VocabSize: 4096, Special: []string{"<|endoftext|>"}})
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile("testdata/bytelevel/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var a, b struct{ Model struct{ Merges [][2]string } }
	for text, to := range map[*[]byte]any{&got: &a, &recorded: &b} {
		if err := json.Unmarshal(*text, to); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(b.Model.Merges, a.Model.Merges); diff != "" {
		t.Errorf("%d and %d merges (-recorded +got): %.600s", len(b.Model.Merges), len(a.Model.Merges), diff)
	}
}

func TestTrain(t *testing.T) {
	texts := func() func(func(string) bool) { return slices.Values([]string{"aaa aab", "aab <e> aab"}) }
	text, err := Train(texts(), TrainConfig{VocabSize: 1000, MinCount: 2, Special: []string{"<e>"}})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(slices.Clone(awkward), "aab aab<e>") {
		if got := tok.Decode(tok.Encode(s)); got != s {
			t.Errorf("got %q, want %q", got, s)
		}
	}
	if id, ok := tok.ID("Ġaab"); !ok || len(tok.Encode(" aab")) != 1 || tok.Encode("<e>")[0] != 0 {
		t.Errorf("Ġaab is token %d, %v; %v", id, ok, tok.Encode("<e> aab"))
	}
	if _, ok := tok.ID("aaa"); ok {
		t.Error("aaa occurs once and is a token")
	}
}

func TestTrainSplit(t *testing.T) {
	text, err := Train(slices.Values([]string{"a1 a1 a1"}), TrainConfig{VocabSize: 300, Split: `\d|\D+`})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, crosses := tok.ID("a1"); crosses || len(tok.Encode(" a1")) != 2 {
		t.Errorf("got %v, want a blank with its letter, and a digit", tok.Encode(" a1"))
	}
}

func TestTrainErrors(t *testing.T) {
	for want, config := range map[string]TrainConfig{
		"vocabulary: got 100, want at least 256": {VocabSize: 100},
		"regular expression":                     {VocabSize: 300, Split: "("},
		"the texts are empty":                    {VocabSize: 300},
	} {
		if _, err := Train(slices.Values([]string{""}), config); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
