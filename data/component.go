package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

// component is a normalizer, a pre-tokenizer, a post-processor or a decoder of a tokenizer.json: the fields of all
// that are supported. Invariant: a nil component does nothing.
type component struct {
	Type string `json:"type"`

	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Processors    []component `json:"processors"`
	Decoders      []component `json:"decoders"`

	AddPrefixSpace   *bool           `json:"add_prefix_space"`
	UseRegex         *bool           `json:"use_regex"`
	Pattern          json.RawMessage `json:"pattern"`
	Behavior         string          `json:"behavior"`
	Invert           bool            `json:"invert"`
	IndividualDigits bool            `json:"individual_digits"`

	Single        json.RawMessage `json:"single"`
	SpecialTokens json.RawMessage `json:"special_tokens"`
}

func isSet(flag *bool) bool { return flag == nil || *flag } // both flags default to true

func (b *BPE) setNormalizer(c *component) error {
	if c == nil {
		return nil
	}
	switch c.Type {
	case "NFC":
		b.normalize = nfc
		return nil
	case "Sequence":
		for i := range c.Normalizers {
			if err := b.setNormalizer(&c.Normalizers[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("normalizer: type %q is not supported: want NFC or none", c.Type)
}

// setSplits reads the pre-tokenizer, which must end in ByteLevel: there, text becomes bytes.
func (b *BPE) setSplits(c *component) error {
	if c == nil {
		return errors.New("pre_tokenizer: got none, want ByteLevel")
	}
	steps := []component{*c}
	if c.Type == "Sequence" {
		steps = c.PreTokenizers
	}
	for i, step := range steps {
		if last := i == len(steps)-1; last != (step.Type == "ByteLevel") {
			return fmt.Errorf("pre_tokenizer: type %q at place %d of %d: want ByteLevel last and only there",
				step.Type, i+1, len(steps))
		}
		s, err := step.split()
		if err != nil {
			return fmt.Errorf("pre_tokenizer: %w", err)
		}
		b.splits = append(b.splits, s)
	}
	if len(steps) == 0 {
		return errors.New("pre_tokenizer: empty Sequence, want ByteLevel")
	}
	return nil
}

func (c *component) split() (split, error) {
	switch c.Type {
	case "ByteLevel":
		s := split{prefixSpace: isSet(c.AddPrefixSpace)}
		if !isSet(c.UseRegex) {
			return s, nil
		}
		p, err := newPattern(gpt2Pattern)
		s.pattern = p
		return s, err
	case "Digits":
		expr := `\p{N}+`
		if c.IndividualDigits {
			expr = `\p{N}`
		}
		p, err := newPattern(expr)
		return split{pattern: p}, err
	case "Split":
		return c.patternSplit()
	}
	return split{}, fmt.Errorf("type %q is not supported: want Split, Digits or ByteLevel", c.Type)
}

func (c *component) patternSplit() (split, error) {
	var raw struct {
		Regex  *string
		String *string
	}
	if err := json.Unmarshal(c.Pattern, &raw); err != nil {
		return split{}, fmt.Errorf("Split: pattern: %w", err)
	}
	var s split
	switch {
	case c.Behavior == "Isolated":
	case c.Behavior == "Removed" && c.Invert:
		s.keep = keepMatches
	case c.Behavior == "Removed":
		s.keep = keepRest
	default:
		return s, fmt.Errorf("Split: behavior %q is not supported: want Isolated or Removed", c.Behavior)
	}
	var err error
	switch {
	case raw.Regex != nil:
		s.pattern, err = newPattern(*raw.Regex)
	case raw.String != nil:
		s.pattern, err = newPattern(regexp.QuoteMeta(*raw.String))
	default:
		return s, errors.New("Split: pattern: want a Regex or a String")
	}
	if err != nil {
		err = fmt.Errorf("Split: pattern: %w", err)
	}
	return s, err
}

// setTemplate reads the tokens that the post-processor puts around a text. ByteLevel moves offsets only, and there
// are none here.
func (b *BPE) setTemplate(c *component) error {
	if c == nil {
		return nil
	}
	switch c.Type {
	case "ByteLevel":
		return nil
	case "Sequence":
		for i := range c.Processors {
			if err := b.setTemplate(&c.Processors[i]); err != nil {
				return err
			}
		}
		return nil
	case "TemplateProcessing":
		prefixes, suffixes, err := c.template()
		if err != nil {
			return fmt.Errorf("post_processor: TemplateProcessing: %w", err)
		}
		b.prefixes = append(prefixes, b.prefixes...)
		b.suffixes = append(b.suffixes, suffixes...)
		return nil
	}
	return fmt.Errorf("post_processor: type %q is not supported: want TemplateProcessing or ByteLevel", c.Type)
}

func (c *component) template() (prefixes, suffixes []int32, err error) {
	var pieces []struct {
		SpecialToken *struct {
			ID string `json:"id"`
		}
		Sequence *struct{}
	}
	if err := json.Unmarshal(c.Single, &pieces); err != nil {
		return nil, nil, fmt.Errorf("single: %w", err)
	}
	var special map[string]struct {
		IDs []int32 `json:"ids"`
	}
	if err := json.Unmarshal(c.SpecialTokens, &special); err != nil {
		return nil, nil, fmt.Errorf("special_tokens: %w", err)
	}
	sequences := 0
	for _, p := range pieces {
		switch {
		case p.Sequence != nil:
			sequences++
		case p.SpecialToken == nil:
			return nil, nil, errors.New("single: want SpecialToken or Sequence")
		default:
			token, ok := special[p.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("single: %q is not among the special_tokens", p.SpecialToken.ID)
			}
			if sequences == 0 {
				prefixes = append(prefixes, token.IDs...)
			} else {
				suffixes = append(suffixes, token.IDs...)
			}
		}
	}
	if sequences != 1 {
		return nil, nil, fmt.Errorf("single: got %d sequences, want 1", sequences)
	}
	return prefixes, suffixes, nil
}

// checkDecoder accepts what amounts to ByteLevel, which is what Decode does.
func checkDecoder(c *component) error {
	if c == nil {
		return errors.New("decoder: got none, want ByteLevel")
	}
	switch c.Type {
	case "ByteLevel":
		return nil
	case "Sequence":
		byteLevel := false
		for _, d := range c.Decoders {
			switch d.Type {
			case "ByteLevel":
				byteLevel = true
			case "ByteFallback", "Fuse":
			default:
				return fmt.Errorf("decoder: type %q is not supported: want ByteLevel", d.Type)
			}
		}
		if byteLevel {
			return nil
		}
	}
	return fmt.Errorf("decoder: type %q is not supported: want ByteLevel", c.Type)
}
