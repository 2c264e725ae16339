package data

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
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
	if id, ok := b.ID("<|endoftext|>"); id != 0 || !ok {
		t.Errorf("end of text: got %d %v, want 0 true", id, ok)
	}
}

var awkward = []string{
	"", " ", "\n", "  \n\t \r\n  x", "don't I'LL we'Ve 'S ''s", "e\u0301 é ﬁ", "日本語 한국어 العربية हिन्दी",
	"🙂👩‍👩‍👧‍👦🇨🇭", "12345 ½ Ⅷ ٣٤٥", "\x00\x01\x7f\u0085\u00a0\u2028\u3000end", "\xff\xfe \x80abc\xc3", "\uFFFD\uFEFF",
	"<|endoftext|><|endoftext|> <|endoftext", strings.Repeat(" ", 100) + "x", strings.Repeat("\n ", 50),
}

func TestRoundTripAwkward(t *testing.T) {
	for _, tok := range []Tokenizer{Bytes{}, loadFixture(t)} {
		for _, text := range append(slices.Clone(awkward), MobyDick()) {
			ids := tok.Encode(text)
			for _, id := range ids {
				if id < 0 || int(id) >= tok.VocabSize() {
					t.Fatalf("%T: id: got %d, want below %d", tok, id, tok.VocabSize())
				}
			}
			if got := tok.Decode(ids); got != text {
				t.Errorf("%T: got %.200q, want %.200q", tok, got, text)
			}
		}
	}
}

func TestDecodeUnknown(t *testing.T) {
	for _, tok := range []Tokenizer{Bytes{}, loadFixture(t)} {
		ids := append([]int32{-1, 1 << 30}, tok.Encode("a b")...)
		if got := tok.Decode(ids); got != "a b" {
			t.Errorf("%T: got %q, want %q", tok, got, "a b")
		}
	}
}

// TestLongWord would take hours, and run into go test's own limit, if merging were quadratic.
func TestLongWord(t *testing.T) {
	b := loadFixture(t)
	word := strings.Repeat("whalesthe", 200_000)
	if got := b.Decode(b.Encode(word)); got != word {
		t.Error("a long word does not come back")
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, text := range awkward {
		f.Add(text)
	}
	b := loadFixture(f)
	f.Fuzz(func(t *testing.T, text string) {
		if got := b.Decode(b.Encode(text)); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	})
}

func ExampleBPE() {
	b, err := LoadTokenizer("testdata/tokenizer.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := b.Encode("Call me Ishmael.")
	for _, id := range ids {
		fmt.Printf("%d %q\n", id, b.Decode([]int32{id}))
	}
	// Output:
	// 35 "C"
	// 390 "all"
	// 397 " me"
	// 3312 " Ishmael"
	// 14 "."
}

func BenchmarkEncode(b *testing.B) {
	tok := loadFixture(b)
	text := MobyDick()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Encode(text)
	}
}
