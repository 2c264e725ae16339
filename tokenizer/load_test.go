package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tinyFields are a whole tokenizer.json; a test replaces some.
var tinyFields = map[string]string{
	"normalizer":     `null`,
	"pre_tokenizer":  `{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}`,
	"post_processor": `null`,
	"decoder":        `{"type":"ByteLevel"}`,
	"added_tokens":   `[]`,
	"model":          `{"type":"BPE","vocab":{"a":0,"b":1,"Ġ":2,"ab":3,"Ġab":4},"merges":["a b",["Ġ","ab"]]}`,
}

func tiny(replace ...string) []byte {
	var fields []string
	for name, value := range tinyFields {
		for i := 0; i < len(replace); i += 2 {
			if replace[i] == name {
				value = replace[i+1]
			}
		}
		fields = append(fields, fmt.Sprintf("%q:%s", name, value))
	}
	return []byte("{" + strings.Join(fields, ",") + "}")
}

func TestParseVariants(t *testing.T) {
	split := func(fields string) string {
		return `{"type":"Sequence","pretokenizers":[{"type":"Split",` + fields +
			`},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]}`
	}
	model := func(fields string) string {
		return `{"type":"BPE",` + fields + `,"vocab":{"a":0,"b":1,"Ġ":2,"ab":3,"?":4,"ba":5},"merges":[["a","b"]]}`
	}
	template := `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},` +
		`{"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"<s>":{"id":"<s>","ids":[9],"tokens":["<s>"]}}}`
	for _, test := range []struct {
		name, field, value, text string
		want                     []int32
	}{
		{"plain", "normalizer", `null`, "ab abba", []int32{3, 4, 1, 0}},
		{"prefix space", "pre_tokenizer", `{"type":"ByteLevel","add_prefix_space":true}`, "ab ab", []int32{4, 4}},
		{"prefix space of nothing", "pre_tokenizer", `{"type":"ByteLevel","add_prefix_space":true}`, "", nil},
		{"no regex", "pre_tokenizer", `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`, "ab ab",
			[]int32{3, 4}},
		{"split", "pre_tokenizer", split(`"pattern":{"Regex":"b"},"behavior":"Isolated"`), "ab ab",
			[]int32{0, 1, 2, 0, 1}},
		{"split off", "pre_tokenizer", split(`"pattern":{"String":" "},"behavior":"Removed"`), "ab ab",
			[]int32{3, 3}},
		{"split inverted", "pre_tokenizer", split(`"pattern":{"Regex":"b+"},"behavior":"Removed","invert":true`),
			"abab", []int32{1, 1}},
		{"template", "post_processor", template, "ab", []int32{9, 3}},
		{"template in sequence", "post_processor", `{"type":"Sequence","processors":[{"type":"ByteLevel"},` +
			template + `]}`, "", []int32{9}},
		{"unknown left out", "model", model(`"unk_token":null`), "axb", []int32{3}},
		{"unknown", "model", model(`"unk_token":"?"`), "axxb", []int32{0, 4, 4, 1}},
		{"unknown fused", "model", model(`"unk_token":"?","fuse_unk":true`), "axxb", []int32{0, 4, 1}},
		{"merges heeded", "model", model(`"ignore_merges":false`), "ba", []int32{1, 0}},
		{"merges ignored", "model", model(`"ignore_merges":true`), "ba", []int32{5}},
		{"old file", "model", `{"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`, "ab", []int32{2}},
		{"NFC", "normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"}]}`, "ab", []int32{3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, err := Parse(tiny(test.field, test.value))
			if err != nil {
				t.Fatal(err)
			}
			if got := b.Encode(test.text); !slices.Equal(got, test.want) {
				t.Errorf("%q: got %v, want %v", test.text, got, test.want)
			}
		})
	}
}

func TestNormalizedBytes(t *testing.T) {
	b, err := Parse(tiny("normalizer", `{"type":"NFC"}`,
		"model", `{"type":"BPE","vocab":{"Ã":0,"©":1,"e":2,"Ã©":3},"merges":["Ã ©"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Encode("e\u0301e"), []int32{3, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestByteFallback(t *testing.T) {
	b, err := Parse(tiny("decoder",
		`{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"ByteLevel"}]}`,
		"model", `{"type":"BPE","byte_fallback":true,"vocab":{"a":0,"<0xC4>":1,"<0xA0>":2,"<0x62>":3},"merges":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	ids := b.Encode("a b")
	if want := []int32{0, 1, 2, 3}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
	if got := b.Decode(ids); got != "a b" {
		t.Errorf("got %q, want %q", got, "a b")
	}
}

func TestAddedTokens(t *testing.T) {
	b, err := Parse(tiny("added_tokens", `[
		{"id":10,"content":"<x>"}, {"id":11,"content":"<x>>"}, {"id":12,"content":"<l>","lstrip":true},
		{"id":13,"content":"<r>","rstrip":true}, {"id":14,"content":"w","single_word":true},
		{"id":15,"content":"<n>","normalized":true}, {"id":99,"content":"b"}, {"id":16,"content":""}]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		text string
		want []int32
	}{
		{"a<x>a<x>>", []int32{0, 10, 0, 11}},
		{"a  <l> a", []int32{0, 12, 2, 0}},
		{"a <r>  a", []int32{0, 2, 13, 0}},
		{"<r>  <l>", []int32{13, 12}},
		{"w aw w-", []int32{14, 2, 0, 2, 14}},
		{"<n><x>", []int32{15, 10}},
		{"ab", []int32{0, 1}}, // the vocab's id, and no merge across it
	} {
		if got := b.Encode(test.text); !slices.Equal(got, test.want) {
			t.Errorf("%q: got %v, want %v", test.text, got, test.want)
		}
	}
	if got := b.Decode([]int32{10, 0, 15}); got != "<x>a<n>" {
		t.Errorf("got %q, want %q", got, "<x>a<n>")
	}
	if got := b.VocabSize(); got != 17 {
		t.Errorf("vocab size: got %d, want 17", got)
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ field, value, want string }{
		{"normalizer", `{"type":"Upper"}`, `normalizer: type "Upper"`},
		{"normalizer", `{"type":"Sequence","normalizers":[{"type":"Roman"}]}`, `normalizer: type "Roman"`},
		{"normalizer", `{"type":"Precompiled","precompiled_charsmap":"!"}`, "normalizer: precompiled_charsmap"},
		{"normalizer", `{"type":"Precompiled","precompiled_charsmap":"AQAAAA=="}`, "precompiled_charsmap: trie"},
		{"normalizer", `{"type":"Replace","content":"x"}`, "normalizer: pattern"},
		{"pre_tokenizer", `{"type":"Metaspace","replacement":"ab"}`, `Metaspace: replacement: got "ab"`},
		{"pre_tokenizer", `{"type":"Metaspace","prepend_scheme":"often"}`, `prepend_scheme: got "often"`},
		{"pre_tokenizer", `{"type":"Words"}`, `pre_tokenizer: type "Words"`},
		{"pre_tokenizer", `{"type":"Split","behavior":"Isolated","pattern":{"Regex":"("}}`,
			"Split: pattern: regular expression"},
		{"pre_tokenizer", `{"type":"Split","behavior":"Isolated"}`, "Split: pattern"},
		{"pre_tokenizer", `{"type":"Split","behavior":"Merged","pattern":{"String":"a"}}`, `behavior "Merged"`},
		{"pre_tokenizer", `{"type":"FixedLength"}`, "FixedLength: length: got 0"},
		{"post_processor", `{"type":"BertProcessing"}`, "post_processor: BertProcessing: cls"},
		{"post_processor", `{"type":"Around"}`, `post_processor: type "Around"`},
		{"post_processor", `{"type":"TemplateProcessing"}`, "post_processor: TemplateProcessing: special_tokens"},
		{"post_processor", `{"type":"TemplateProcessing","single":[],"special_tokens":{}}`, "got 0 sequences"},
		{"post_processor",
			`{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{}}`,
			`"x" is not among`},
		{"decoder", `{"type":"Words"}`, `decoder: type "Words"`},
		{"decoder", `{"type":"Strip","content":"ab"}`, "decoder: Strip"},
		{"model", `null`, "no model"},
		{"model", `{"type":"Unigram","vocab":[["a"]]}`, "model"},
		{"model", `{"type":"Unigram","unk_id":1,"vocab":[["a",0]]}`, "model: unk_id: got 1"},
		{"model", `{"type":"Unigram","vocab":[["a",0],["a",1]]}`, `token "a" is there twice`},
		{"model", `{"type":"WordPiece","vocab":{"a":0}}`, `model: unk_token: "[UNK]"`},
		{"model", `{"type":"Words","vocab":{"a":0}}`, `model: type: got "Words"`},
		{"model", `{"type":"BPE","vocab":{}}`, "model: no vocab"},
		{"model", `{"type":"BPE","vocab":{"a":-1}}`, `token "a": id: got -1`},
		{"model", `{"type":"BPE","vocab":{"b":1,"a":1}}`, `"a" and "b": both have id 1`},
		{"model", `{"type":"BPE","vocab":{"a":0},"dropout":0.1}`, "model: dropout: got 0.1"},
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":["a a"]}`, `merges: 0: "a" and "a"`},
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":["a"]}`, "want two tokens"},
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":[["a","b","c"]]}`, "want two tokens"},
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":[1]}`, "want two tokens"},
		{"added_tokens", `[{"id":0,"content":"x"}]`, `added_tokens: tokens "a" and "x": both have id 0`},
		{"added_tokens", `[{"id":-5,"content":"x"}]`, "added_tokens: token"},
	} {
		_, err := Parse(tiny(test.field, test.value))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q in it", test.value, err, test.want)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if _, err := Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("cut file: got %v, want an error that names it", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(tiny())
	f.Add(tiny("added_tokens", `[{"id":10,"content":"<x>","lstrip":true}]`))
	f.Add([]byte(`{"model":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := Parse(text)
		if err != nil {
			return
		}
		for _, s := range awkward {
			b.Decode(b.Encode(s))
		}
	})
}

// TestLoadBounded: what is no file of a tokenizer's size is not read to its end, which may never come.
func TestLoadBounded(t *testing.T) {
	large := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(large, tiny(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<40); err != nil { // a hole: it takes no room
		t.Skip(err)
	}
	for path, want := range map[string]string{large: "more than 268435456 bytes", t.TempDir(): "a directory",
		os.DevNull: "a device"} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}
