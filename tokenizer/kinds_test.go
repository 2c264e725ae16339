package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

func mustParse(t testing.TB, fields ...string) *Tokenizer {
	t.Helper()
	tok, err := Parse(tiny(fields...))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// charsMapOf returns a precompiled_charsmap that replaces single bytes.
func charsMapOf(replace map[byte]string) string {
	units := make([]uint32, 1024)
	units[0] = 256 << 10 // the root's children lie at 256 ^ byte
	blob := []byte{}
	for c, to := range replace {
		at := 256 ^ uint32(c)
		units[at] = (at^(512+uint32(c)))<<10 | 1<<8 | uint32(c) // a leaf follows, at 512 + byte
		units[512+uint32(c)] = 1<<31 | uint32(len(blob))
		blob = append(append(blob, to...), 0)
	}
	raw := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		raw = binary.LittleEndian.AppendUint32(raw, u)
	}
	return base64.StdEncoding.EncodeToString(append(raw, blob...))
}

func TestNormalizers(t *testing.T) {
	chars := charsMapOf(map[byte]string{'A': "a", 'X': "ks", '\t': " "})
	for _, test := range []struct{ normalizer, text, want string }{
		{`{"type":"Lowercase"}`, "ÀBΣİ", "àbσi̇"},
		{`{"type":"NFD"}`, "é", "e\u0301"},
		{`{"type":"NFC"}`, "e\u0301 한", "é 한"},
		{`{"type":"NFKC"}`, "ﬁ½Å", "fi1⁄2Å"},
		{`{"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"}]}`, "Ünïcödé", "Unicode"},
		{`{"type":"Strip","strip_left":true,"strip_right":false}`, "  a ", "a "},
		{`{"type":"Strip","strip_left":true,"strip_right":true}`, "  a ", "a"},
		{`{"type":"Replace","pattern":{"Regex":" {2,}"},"content":"_"}`, "a   b c", "a_b c"},
		{`{"type":"Prepend","prepend":"▁"}`, "a", "▁a"},
		{`{"type":"Prepend","prepend":"▁"}`, "", ""},
		{`{"type":"Nmt"}`, "a\x01\tb", "a b"},
		{`{"type":"BertNormalizer"}`, "É\x00日\t", "e 日  "},
		{`{"type":"BertNormalizer","lowercase":false,"strip_accents":null}`, "É", "É"},
		{`{"type":"BertNormalizer","lowercase":false,"strip_accents":true}`, "É", "E"},
		{`{"type":"Precompiled","precompiled_charsmap":"` + chars + `"}`, "A\tXé", "a ksé"},
	} {
		tok := mustParse(t, "normalizer", test.normalizer)
		whole := aligned{text: test.text, from: characterSpans(test.text), first: true}
		got := tok.normalizers.apply(whole)
		if got.text != test.want || len(got.from) != len(got.text) {
			t.Errorf("%s: %q: got %q with %d places, want %q", test.normalizer, test.text, got.text, len(got.from),
				test.want)
		}
		if plain := tok.normalizers.apply(aligned{text: test.text}); plain.text != test.want {
			t.Errorf("%s: %q: without places: got %q, want %q", test.normalizer, test.text, plain.text, test.want)
		}
	}
}

func TestPreTokenizers(t *testing.T) {
	for _, test := range []struct{ pre, text, want string }{
		{`{"type":"Whitespace"}`, "don't stop: 日本", "don|'|t|stop|:|日本"},
		{`{"type":"WhitespaceSplit"}`, " a  b\u3000c", "a|b|c"},
		{`{"type":"BertPreTokenizer"}`, "Hi, you—all $5", "Hi|,|you|—|all|$|5"},
		{`{"type":"Punctuation"}`, "a.b", "a|.|b"},
		{`{"type":"Punctuation","behavior":"Contiguous"}`, "a..b", "a|..|b"},
		{`{"type":"Digits","individual_digits":true}`, "a12½", "a|1|2|½"},
		{`{"type":"Digits","individual_digits":false}`, "a12b", "a|12|b"},
		{`{"type":"CharDelimiterSplit","delimiter":"-"}`, "a-b--c", "a|b|c"},
		{`{"type":"FixedLength","length":2}`, "日本語a1", "日本|語a|1"},
		{`{"type":"UnicodeScripts"}`, "日本ひらabc мир", "日本ひら|abc |мир"},
		{`{"type":"Metaspace"}`, "a b  c", "▁a|▁b|▁|▁c"},
		{`{"type":"Metaspace","prepend_scheme":"never"}`, "a b", "a|▁b"},
		{`{"type":"Metaspace","add_prefix_space":false}`, "a b", "a|▁b"},
		{`{"type":"Metaspace","split":false}`, "a b", "▁a▁b"},
		{`{"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false},{"type":"Digits"}]}`,
			"é 1", "Ã©|Ġ|1"},
	} {
		tok := mustParse(t, "pre_tokenizer", test.pre)
		var got []string
		e := newEncoder()
		var cut func(a aligned, steps []splitter)
		cut = func(a aligned, steps []splitter) {
			if len(steps) == 0 {
				got = append(got, a.text)
				return
			}
			steps[0].split(a, func(p aligned) { cut(p, steps[1:]) })
		}
		cut(aligned{text: test.text, first: true}, tok.splitters)
		if joined := strings.Join(got, "|"); joined != test.want {
			t.Errorf("%s: %q: got %q, want %q", test.pre, test.text, joined, test.want)
		}
		e.ids(tok, test.text)
	}
}

// TestMetaspaceFirst: a mark is put before the text, not behind an added token.
func TestMetaspaceFirst(t *testing.T) {
	fields := func(scheme string) *Tokenizer {
		return mustParse(t, "pre_tokenizer", `{"type":"Metaspace","prepend_scheme":"`+scheme+`"}`,
			"added_tokens", `[{"id":9,"content":"<x>"}]`,
			"model", `{"type":"WordLevel","vocab":{"▁a":0,"a":1,"<unk>":2},"unk_token":"<unk>"}`)
	}
	for scheme, want := range map[string][]int32{"first": {0, 9, 1}, "always": {0, 9, 0}, "never": {1, 9, 1}} {
		if got := fields(scheme).Encode("a<x>a"); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", scheme, got, want)
		}
	}
}

func TestModels(t *testing.T) {
	words := `{"type":"WhitespaceSplit"}`
	for _, test := range []struct {
		name, model, text string
		want              []int32
	}{
		{"word level", `{"type":"WordLevel","vocab":{"a":0,"b":1,"?":2},"unk_token":"?"}`, "a c b",
			[]int32{0, 2, 1}},
		{"word piece", `{"type":"WordPiece","vocab":{"[UNK]":0,"un":1,"##able":2,"##a":3},"unk_token":"[UNK]"}`,
			"unable unax", []int32{1, 2, 0}},
		{"long word", `{"type":"WordPiece","vocab":{"[UNK]":0,"a":1,"##a":2},"max_input_chars_per_word":2}`,
			"aa aaa",
			[]int32{1, 2, 0}},
		{"end of word",
			`{"type":"BPE","vocab":{"a":0,"b</w>":1,"ab</w>":2,"b":3},"merges":["a b</w>"],"end_of_word_suffix":"</w>"}`,
			"ab b", []int32{2, 1}},
		{"subword prefix",
			`{"type":"BPE","vocab":{"a":0,"##b":1,"ab":2},"merges":["a ##b"],"continuing_subword_prefix":"##"}`,
			"ab", []int32{2}},
		{"unigram", `{"type":"Unigram","unk_id":0,"vocab":[["?",0],["a",-1],["b",-1],["ab",-1.5],["aba",-4]]}`,
			"aba xyb",
			[]int32{3, 1, 0, 2}},
		{"unigram bytes",
			`{"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[["?",0],["a",-1],["<0xC3>",-9],["<0xA9>",-9]]}`,
			"aé", []int32{1, 2, 3}},
	} {
		tok := mustParse(t, "pre_tokenizer", words, "model", test.model)
		if got := tok.Encode(test.text); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestPairs(t *testing.T) {
	word := []string{"pre_tokenizer", `{"type":"WhitespaceSplit"}`, "model",
		`{"type":"WordLevel","vocab":{"a":0,"b":1,"[CLS]":2,"[SEP]":3}}`}
	bert := `{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]}`
	roberta := `{"type":"RobertaProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]}`
	for _, test := range []struct {
		post       string
		ids, types []int32
	}{
		{bert, []int32{2, 0, 3, 1, 3}, []int32{0, 0, 0, 1, 1}},
		{roberta, []int32{2, 0, 3, 3, 1, 3}, []int32{0, 0, 0, 0, 0, 0}},
		{`null`, []int32{0, 1}, []int32{0, 1}},
	} {
		tok := mustParse(t, append(word, "post_processor", test.post)...)
		e := tok.EncodePair("a", "b")
		if !slices.Equal(e.IDs, test.ids) || !slices.Equal(e.TypeIDs, test.types) {
			t.Errorf("%s: got %v of types %v, want %v of %v", test.post, e.IDs, e.TypeIDs, test.ids, test.types)
		}
		if got := tok.WithoutSpecial().Encode("a b"); !slices.Equal(got, []int32{0, 1}) {
			t.Errorf("%s: without special tokens: got %v", test.post, got)
		}
	}
}

// TestTrimmedOffsets: RoBERTa's and GPT-2's tokens begin with a blank, their offsets do not.
func TestTrimmedOffsets(t *testing.T) {
	tok := mustParse(t, "pre_tokenizer", `{"type":"ByteLevel","add_prefix_space":true}`, "post_processor",
		`{"type":"ByteLevel","trim_offsets":true,"add_prefix_space":true}`)
	want := [][2]int{{0, 2}, {3, 5}}
	if got := tok.EncodeOffsets("ab ab"); !slices.Equal(got.Offsets, want) {
		t.Errorf("got %v, want %v", got.Offsets, want)
	}
}

func TestDecoders(t *testing.T) {
	model := `{"type":"WordLevel","vocab":{"▁a":0,"b</w>":1,"##c":2,"<0xE6>":3,"<0x97>":4,"<0xA5>":5,"<pad>":6,"|":7,"d":8}}`
	for _, test := range []struct {
		decoder string
		ids     []int32
		want    string
	}{
		{`null`, []int32{8, 8}, "d d"},
		{`{"type":"Metaspace"}`, []int32{0, 0}, "a a"},
		{`{"type":"Metaspace","prepend_scheme":"never"}`, []int32{0, 0}, " a a"},
		{`{"type":"BPEDecoder"}`, []int32{1, 1}, "b b"},
		{`{"type":"WordPiece","cleanup":false}`, []int32{8, 2, 8}, "dc d"},
		{`{"type":"ByteFallback"}`, []int32{3, 4, 5, 8}, "日d"},
		{`{"type":"CTC"}`, []int32{8, 8, 6, 8, 7, 0}, "dd ▁a"},
		{`{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"Fuse"},` +
			`{"type":"Strip","content":" ","start":1,"stop":0}]}`, []int32{0, 0}, "a a"},
	} {
		tok := mustParse(t, "model", model, "decoder", test.decoder)
		if got := tok.Decode(test.ids); got != test.want {
			t.Errorf("%s: got %q, want %q", test.decoder, got, test.want)
		}
	}
}

func TestDecodeText(t *testing.T) {
	tok := mustParse(t, "added_tokens", `[{"id":9,"content":"<s>","special":true}]`)
	if got := tok.DecodeText([]int32{9, 3, 9}); got != "ab" {
		t.Errorf("got %q, want ab", got)
	}
}
