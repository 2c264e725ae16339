package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// component is a normalizer, pre-tokenizer, post-processor or decoder of a tokenizer.json. It has the fields
// of all supported kinds. A nil component does nothing.
type component struct {
	Type string `json:"type"`

	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Processors    []component `json:"processors"`
	Decoders      []component `json:"decoders"`

	AddPrefixSpace   *bool           `json:"add_prefix_space"`
	TrimOffsets      *bool           `json:"trim_offsets"`
	UseRegex         *bool           `json:"use_regex"`
	Pattern          json.RawMessage `json:"pattern"`
	Behavior         string          `json:"behavior"`
	Invert           bool            `json:"invert"`
	IndividualDigits bool            `json:"individual_digits"`
	Replacement      *string         `json:"replacement"`
	PrependScheme    *string         `json:"prepend_scheme"`
	Split            *bool           `json:"split"`
	Delimiter        string          `json:"delimiter"`
	Length           int             `json:"length"`

	Content    string `json:"content"`
	Prepend    string `json:"prepend"`
	StripLeft  bool   `json:"strip_left"`
	StripRight bool   `json:"strip_right"`
	CharsMap   string `json:"precompiled_charsmap"`

	CleanText    *bool `json:"clean_text"`
	ChineseChars *bool `json:"handle_chinese_chars"`
	StripAccents *bool `json:"strip_accents"`
	Lowercase    *bool `json:"lowercase"`

	Single        json.RawMessage `json:"single"`
	Pair          json.RawMessage `json:"pair"`
	SpecialTokens json.RawMessage `json:"special_tokens"`
	CLS           json.RawMessage `json:"cls"`
	SEP           json.RawMessage `json:"sep"`

	Start         int     `json:"start"`
	Stop          int     `json:"stop"`
	Prefix        *string `json:"prefix"`
	Suffix        *string `json:"suffix"`
	Cleanup       *bool   `json:"cleanup"`
	PadToken      *string `json:"pad_token"`
	WordDelimiter *string `json:"word_delimiter_token"`
}

func orTrue(flag *bool) bool { return flag == nil || *flag }

func or(value *string, otherwise string) string {
	if value == nil {
		return otherwise
	}
	return *value
}

// normalizers returns the steps of a normalizer.
func (c *component) normalizers() (sequence, error) {
	if c == nil {
		return nil, nil
	}
	if c.Type == "Sequence" {
		var all sequence
		for i := range c.Normalizers {
			n, err := c.Normalizers[i].normalizers()
			if err != nil {
				return nil, err
			}
			all = append(all, n...)
		}
		return all, nil
	}
	n, err := c.normalizer()
	if err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	return sequence{n}, nil
}

func (c *component) normalizer() (normalizer, error) {
	switch c.Type {
	case "NFC":
		return unicodeForm(norm.NFC, norm.NFD), nil
	case "NFD":
		return unicodeForm(norm.NFD, norm.NFD), nil
	case "NFKC":
		return unicodeForm(norm.NFKC, norm.NFKD), nil
	case "NFKD":
		return unicodeForm(norm.NFKD, norm.NFKD), nil
	case "Lowercase":
		return lowercase, nil
	case "StripAccents":
		return remove(isMark), nil
	case "Strip":
		return strip(c.StripLeft, c.StripRight), nil
	case "Nmt":
		return nmt, nil
	case "ByteLevel":
		return letters, nil
	case "Prepend":
		return func(a aligned) aligned { return prepend(a, c.Prepend) }, nil
	case "Replace":
		m, err := c.matcher()
		return replace(m, c.Content), err
	case "BertNormalizer":
		lower := orTrue(c.Lowercase)
		accents := lower // the file's default
		if c.StripAccents != nil {
			accents = *c.StripAccents
		}
		return bertNormalizer(orTrue(c.CleanText), orTrue(c.ChineseChars), accents, lower), nil
	case "Precompiled":
		m, err := newCharsMap(c.CharsMap)
		if err != nil {
			return nil, err
		}
		return m.normalize, nil
	}
	return nil, fmt.Errorf("type %q is not supported: want NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, "+
		"Strip, "+
		"Prepend, Replace, BertNormalizer, Precompiled, Nmt, ByteLevel or Sequence", c.Type)
}

// splitters returns the steps of a pre-tokenizer. If ByteLevel is the last step, bytes become letters only
// when the model reads them.
func (c *component) splitters() (steps []splitter, byteLetters bool, err error) {
	if c == nil {
		return nil, false, nil
	}
	flat := c.flatten(nil)
	for i, step := range flat {
		s, err := step.splitter()
		if err != nil {
			return nil, false, fmt.Errorf("pre_tokenizer: %w", err)
		}
		steps = append(steps, s)
		if step.Type == "ByteLevel" {
			byteLetters = i == len(flat)-1
			if !byteLetters {
				steps = append(steps, letterSplit{})
			}
		}
	}
	return steps, byteLetters, nil
}

// flatten appends the steps of nested sequences to steps.
func (c *component) flatten(steps []*component) []*component {
	if c.Type != "Sequence" {
		return append(steps, c)
	}
	for i := range c.PreTokenizers {
		steps = c.PreTokenizers[i].flatten(steps)
	}
	return steps
}

func (c *component) splitter() (splitter, error) {
	switch c.Type {
	case "ByteLevel":
		s := byteLevel{prefixSpace: orTrue(c.AddPrefixSpace)}
		if orTrue(c.UseRegex) {
			m, err := newPattern(gpt2Pattern)
			s.words = matchSplit{matcher: m}
			return s, err
		}
		return s, nil
	case "Metaspace":
		return c.metaspace()
	case "Whitespace":
		m, err := newPattern(words)
		return matchSplit{matcher: m, behavior: removed, invert: true}, err
	case "WhitespaceSplit":
		return matchSplit{matcher: runeClass(unicode.IsSpace), behavior: removed}, nil
	case "BertPreTokenizer":
		return bertSplit{}, nil
	case "Punctuation":
		b, err := c.behavior("Isolated")
		return matchSplit{matcher: runeClass(isPunctuation), behavior: b}, err
	case "Digits":
		b := contiguous
		if c.IndividualDigits {
			b = isolated
		}
		return matchSplit{matcher: runeClass(unicode.IsNumber), behavior: b}, nil
	case "CharDelimiterSplit":
		return matchSplit{matcher: literal(c.Delimiter), behavior: removed}, nil
	case "UnicodeScripts":
		return scriptSplit{}, nil
	case "FixedLength":
		if c.Length < 1 {
			return nil, fmt.Errorf("FixedLength: length: got %d, want at least 1", c.Length)
		}
		return lengthSplit(c.Length), nil
	case "Split":
		return c.patternSplit()
	}
	return nil, fmt.Errorf("type %q is not supported: want ByteLevel, Metaspace, Whitespace, WhitespaceSplit, "+
		"BertPreTokenizer, Punctuation, Digits, CharDelimiterSplit, UnicodeScripts, FixedLength, Split or Sequence",
		c.Type)
}

func (c *component) metaspace() (metaspace, error) {
	m := metaspace{mark: or(c.Replacement, "▁"), when: prependAlways, cuts: orTrue(c.Split)}
	if c.AddPrefixSpace != nil && !*c.AddPrefixSpace { // the field in older files
		m.when = prependNever
	}
	if c.PrependScheme != nil {
		m.when = prependScheme(*c.PrependScheme)
	}
	switch {
	case utf8.RuneCountInString(m.mark) != 1:
		return m, fmt.Errorf("%s: replacement: got %q, want one character", c.Type, m.mark)
	case m.when != prependAlways && m.when != prependFirst && m.when != prependNever:
		return m, fmt.Errorf("%s: prepend_scheme: got %q, want always, first or never", c.Type, m.when)
	}
	return m, nil
}

func (c *component) patternSplit() (splitter, error) {
	b, err := c.behavior("")
	if err != nil {
		return nil, err
	}
	m, err := c.matcher()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Type, err)
	}
	return matchSplit{matcher: m, behavior: b, invert: c.Invert}, nil
}

func (c *component) behavior(otherwise string) (behavior, error) {
	name := c.Behavior
	if name == "" {
		name = otherwise
	}
	known := map[string]behavior{"Isolated": isolated, "Removed": removed,
		"MergedWithPrevious": mergedWithPrevious,
		"MergedWithNext":     mergedWithNext, "Contiguous": contiguous}
	b, ok := known[name]
	if !ok {
		return b, fmt.Errorf("%s: behavior %q is not supported: want Isolated, Removed, MergedWithPrevious, "+
			"MergedWithNext or Contiguous", c.Type, name)
	}
	return b, nil
}

// matcher returns a pattern, which is a string or a regular expression.
func (c *component) matcher() (matcher, error) {
	var raw struct{ Regex, String *string }
	if err := json.Unmarshal(c.Pattern, &raw); err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	switch {
	case raw.Regex != nil:
		m, err := newPattern(*raw.Regex)
		if err != nil {
			err = fmt.Errorf("pattern: %w", err)
		}
		return m, err
	case raw.String != nil:
		return literal(*raw.String), nil
	}
	return nil, errors.New("pattern: want a Regex or a String")
}
