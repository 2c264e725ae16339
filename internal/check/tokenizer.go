package check

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/galley-ml/galley/internal/check/report"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/tokenizer"
)

// tokenizerCase is an entry of cases.json: a text and the result of Hugging Face's tokenizers.
type tokenizerCase struct {
	Text    string   `json:"text"`
	Pair    *string  `json:"pair"` // a second text
	Types   []int32  `json:"types"`
	IDs     []int32  `json:"ids"`
	Offsets [][2]int `json:"offsets"` // in characters; absent: not recorded
	Decoded *string  `json:"decoded"` // special tokens included; absent: not recorded
	Shown   *string  `json:"shown"`   // without special tokens; absent: not recorded
}

// TokenizerConfig is the options of Tokenizer.
type TokenizerConfig struct {
	// Verbose prints the cases that pass, too.
	Verbose bool
}

// Tokenizer compares dir/tokenizer.json with the ids, offsets and decoded texts of dir/cases.json.
func Tokenizer(w io.Writer, dir string, config TokenizerConfig) (*report.Report, error) {
	t, err := tokenizer.Load(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "cases.json")
	text, err := strict.ReadFile(path, strict.Data)
	if err != nil {
		return nil, err
	}
	var cases []tokenizerCase
	if err := json.Unmarshal(text, &cases); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := report.New(w, config.Verbose)
	for i, c := range cases {
		r.Add(fmt.Sprintf("%d %.40q", i, c.Text), c.faults(t), fmt.Sprintf("%d tokens", len(c.IDs)))
	}
	r.Last()
	return r, nil
}

// faults returns the differences between t's results for a case and the recorded ones.
func (c tokenizerCase) faults(t *tokenizer.Tokenizer) (faults []string) {
	fault := func(what string, got, want any) {
		faults = append(faults, fmt.Sprintf("%s: got %v, want %v", what, got, want))
	}
	var e tokenizer.Encoding
	switch {
	case t.Limited():
		var err error
		if e, err = t.EncodeLimited(c.Text, c.Pair); err != nil {
			return []string{err.Error()}
		}
	case c.Pair != nil:
		e = t.EncodePair(c.Text, *c.Pair)
	default:
		e = t.EncodeOffsets(c.Text)
		if got := t.Encode(c.Text); !slices.Equal(got, c.IDs) {
			fault("ids", got, c.IDs)
		}
	}
	if c.Types != nil && !slices.Equal(e.TypeIDs, c.Types) {
		fault("types", e.TypeIDs, c.Types)
	}
	if !slices.Equal(e.IDs, c.IDs) {
		fault("ids with offsets", e.IDs, c.IDs)
	}
	if c.Offsets != nil && !slices.Equal(e.Offsets, c.Offsets) {
		fault("offsets", e.Offsets, c.Offsets)
	}
	if c.Decoded == nil {
		return faults
	}
	if got := readable(t.Decode(c.IDs)); got != *c.Decoded {
		fault("decoded", fmt.Sprintf("%q", got), fmt.Sprintf("%q", *c.Decoded))
	}
	if got := readable(t.DecodeText(c.IDs)); c.Shown != nil && got != *c.Shown {
		fault("shown", fmt.Sprintf("%q", got), fmt.Sprintf("%q", *c.Shown))
	}
	return faults
}

// readable returns text as the library shows it, while a tokenizer here keeps invalid UTF-8 as bytes: a
// replacement character for each incomplete character, and for each other invalid byte.
func readable(text string) string {
	var b strings.Builder
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			for n < len(text) && !utf8.FullRuneInString(text[:n+1]) {
				n++
			}
		}
		b.WriteRune(r)
		text = text[n:]
	}
	return b.String()
}
