package data

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

func loadFixture(t testing.TB) *BPE {
	t.Helper()
	b, err := LoadTokenizer("testdata/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReference holds Encode and Decode against Hugging Face's tokenizers.
func TestReference(t *testing.T) {
	b := loadFixture(t)
	text, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Text    string
		IDs     []int32
		Decoded string
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if got := b.Encode(c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("%q: got %v, want %v", c.Text, got, c.IDs)
		}
		if got := b.Decode(c.IDs); got != c.Decoded {
			t.Errorf("%v: got %q, want %q", c.IDs, got, c.Decoded)
		}
	}
	if got := b.VocabSize(); got != 4096 {
		t.Errorf("vocab size: got %d, want 4096", got)
	}
}
func BenchmarkEncode(b *testing.B) {
	tok := loadFixture(b)
	text := MobyDick()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Encode(text)
	}
}
