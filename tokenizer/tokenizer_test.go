package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func loadFixture(t testing.TB) *Tokenizer {
	t.Helper()
	b, err := Load("testdata/bytelevel/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReference holds Encode and Decode, and offsets where they are recorded, against Hugging Face's
// tokenizers.
func TestReference(t *testing.T) {
	for _, kind := range []string{"bytelevel", "llama", "unigram", "wordpiece"} {
		t.Run(kind, func(t *testing.T) {
			tok, err := Load("testdata/" + kind + "/tokenizer.json")
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range readCases(t, kind) {
				c.check(t, tok)
			}
		})
	}
}

type recorded struct {
	Text    string
	IDs     []int32
	Offsets [][2]int
	Decoded string
}

func readCases(t *testing.T, kind string) (cases []recorded) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + kind + "/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func (c recorded) check(t *testing.T, tok *Tokenizer) {
	t.Helper()
	if got := tok.Encode(c.Text); !slices.Equal(got, c.IDs) {
		t.Errorf("%q: got %v, want %v", c.Text, got, c.IDs)
	}
	e := tok.EncodeOffsets(c.Text)
	if !slices.Equal(e.IDs, c.IDs) {
		t.Errorf("%q: with offsets: got %v, want %v", c.Text, e.IDs, c.IDs)
	}
	if c.Offsets != nil && !slices.Equal(e.Offsets, c.Offsets) {
		t.Errorf("%q: offsets: got %v, want %v", c.Text, e.Offsets, c.Offsets)
	}
	if got := tok.Decode(c.IDs); got != c.Decoded {
		t.Errorf("%v: got %q, want %q", c.IDs, got, c.Decoded)
	}
}

func TestVocabulary(t *testing.T) {
	b := loadFixture(t)
	if got := b.VocabSize(); got != 4096 {
		t.Errorf("vocab size: got %d, want 4096", got)
	}
	if id, ok := b.ID("<|endoftext|>"); id != 0 || !ok || !b.IsSpecial(id) {
		t.Errorf("end of text: got %d %v, want 0 true, special", id, ok)
	}
	if token, ok := b.Token(0); token != "<|endoftext|>" || !ok {
		t.Errorf("token 0: got %q %v", token, ok)
	}
}

var awkward = []string{
	"", " ", "\n", "  \n\t \r\n  x", "don't I'LL we'Ve 'S ''s", "e\u0301 é ﬁ", "日本語 한국어 العربية हिन्दी",
	"🙂👩‍👩‍👧‍👦🇨🇭", "12345 ½ Ⅷ ٣٤٥", "\x00\x01\x7f\u0085\u00a0\u2028\u3000end", "\xff\xfe \x80abc\xc3",
	"\uFFFD\uFEFF",
	"<|endoftext|><|endoftext|> <|endoftext", strings.Repeat(" ", 100) + "x", strings.Repeat("\n ", 50),
}

func TestRoundTripAwkward(t *testing.T) {
	for _, tok := range []*Tokenizer{loadFixture(t)} {
		for _, text := range awkward {
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
	for _, tok := range []*Tokenizer{loadFixture(t)} {
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

func ExampleTokenizer() {
	b, err := Load("testdata/bytelevel/tokenizer.json")
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
	text := strings.Repeat("Call me Ishmael. Some years ago, never mind how long precisely, ", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Encode(text)
	}
}
