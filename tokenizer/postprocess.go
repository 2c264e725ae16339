package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// processor changes the encoding of a text, or of a pair of texts.
type processor interface {
	process(t *Tokenizer, a Encoding, b *Encoding) (Encoding, *Encoding)
}

// process runs the processors, and then appends the second text if none of them has.
func (t *Tokenizer) process(a Encoding, b *Encoding) Encoding {
	for _, p := range t.processors {
		a, b = p.process(t, a, b)
	}
	if b != nil {
		a = a.append(*b)
	}
	return a
}

// append returns e followed by f.
func (e Encoding) append(f Encoding) Encoding {
	return Encoding{IDs: append(e.IDs, f.IDs...), Offsets: append(e.Offsets, f.Offsets...),
		TypeIDs: append(e.TypeIDs, f.TypeIDs...), Special: append(e.Special, f.Special...),
		matched: append(e.matched, f.matched...)}
}

// appendSpecial returns e followed by special tokens, which have no text.
func (e Encoding) appendSpecial(ids []int32, typeID int32) Encoding {
	e.IDs = append(e.IDs, ids...)
	for range ids {
		e.Offsets = append(e.Offsets, [2]int{})
		e.TypeIDs = append(e.TypeIDs, typeID)
		e.Special = append(e.Special, true)
		e.matched = append(e.matched, "")
	}
	return e
}

// template puts texts and special tokens in order.
type template struct{ single, pair []part }

// part is one element of a template: special tokens, or a text if there are none.
type part struct {
	ids    []int32
	second bool // the second text
	typeID int32
}

func (p template) process(_ *Tokenizer, a Encoding, b *Encoding) (Encoding, *Encoding) {
	parts := p.single
	if b != nil {
		parts = p.pair
	}
	var out Encoding
	for _, part := range parts {
		switch {
		case part.ids != nil:
			out = out.appendSpecial(part.ids, part.typeID)
		case part.second:
			out = out.append(b.typed(part.typeID))
		default:
			out = out.append(a.typed(part.typeID))
		}
	}
	return out, nil
}

// typed returns e with one type id for all tokens.
func (e Encoding) typed(id int32) Encoding {
	types := make([]int32, len(e.IDs))
	for i := range types {
		types[i] = id
	}
	e.TypeIDs = types
	return e
}

// trimOffsets excludes white space from the offsets of tokens, if an encoding has offsets.
type trimOffsets struct{ prefixSpace bool }

func (p trimOffsets) process(t *Tokenizer, a Encoding, b *Encoding) (Encoding, *Encoding) {
	p.trim(t, a)
	if b != nil {
		p.trim(t, *b)
	}
	return a, b
}

func (p trimOffsets) trim(t *Tokenizer, e Encoding) {
	for i := range e.Offsets {
		o := &e.Offsets[i]
		text := t.tokens[e.IDs[i]]
		if e.matched[i] != "" {
			text = e.matched[i]
		}
		left, right := blanks(text)
		if left == 1 && p.prefixSpace && (i == 0 || o[0] == 0) {
			left = 0 // the prefix space is not part of the text
		}
		if left > 0 {
			o[0] = min(o[0]+left, o[1])
		}
		if right > 0 && o[1] >= right {
			o[1] = max(o[1]-right, o[0])
		}
	}
}

// blanks returns how many blank characters a token begins and ends with.
func blanks(token string) (left, right int) {
	blank := func(r rune) bool { return r == 'Ġ' || unicode.IsSpace(r) }
	for _, r := range token {
		if !blank(r) {
			break
		}
		left++
	}
	for token != "" {
		r, size := utf8.DecodeLastRuneInString(token)
		if !blank(r) {
			break
		}
		token = token[:len(token)-size]
		right++
	}
	return left, right
}

// processors returns the steps of a post-processor.
func (c *component) processors() ([]processor, error) {
	if c == nil {
		return nil, nil
	}
	switch c.Type {
	case "ByteLevel":
		return c.trimmer(), nil
	case "Sequence":
		var all []processor
		for i := range c.Processors {
			p, err := c.Processors[i].processors()
			if err != nil {
				return nil, err
			}
			all = append(all, p...)
		}
		return all, nil
	case "TemplateProcessing":
		p, err := c.template()
		if err != nil {
			return nil, fmt.Errorf("post_processor: TemplateProcessing: %w", err)
		}
		return []processor{p}, nil
	case "BertProcessing":
		p, err := c.around(1)
		return []processor{p}, err
	case "RobertaProcessing":
		p, err := c.around(2)
		return append(c.trimmer(), p), err
	}
	return nil, fmt.Errorf("post_processor: type %q is not supported: want TemplateProcessing, ByteLevel, "+
		"BertProcessing, RobertaProcessing or Sequence", c.Type)
}

func (c *component) trimmer() []processor {
	if !orTrue(c.TrimOffsets) {
		return nil
	}
	return []processor{trimOffsets{prefixSpace: orTrue(c.AddPrefixSpace)}}
}

// around returns BERT's and RoBERTa's template: cls a sep, and for a pair one separator between the texts, or
// two.
func (c *component) around(separators int) (template, error) {
	cls, err := specialPair(c.CLS)
	if err != nil {
		return template{}, fmt.Errorf("post_processor: %s: cls: %w", c.Type, err)
	}
	sep, err := specialPair(c.SEP)
	if err != nil {
		return template{}, fmt.Errorf("post_processor: %s: sep: %w", c.Type, err)
	}
	second := int32(2 - separators) // RoBERTa has no type ids
	single := []part{{ids: cls}, {}, {ids: sep}}
	pair := append([]part{}, single...)
	if separators == 2 {
		pair = append(pair, part{ids: sep})
	}
	pair = append(pair, part{second: true, typeID: second}, part{ids: sep, typeID: second})
	return template{single: single, pair: pair}, nil
}

// specialPair reads a token and its id, such as ["[SEP]", 102].
func specialPair(raw json.RawMessage) ([]int32, error) {
	var token string
	var id int32
	if err := readPair(raw, &token, &id); err != nil {
		return nil, fmt.Errorf("got %s, want a token and its id", raw)
	}
	return []int32{id}, nil
}

func (c *component) template() (template, error) {
	var special map[string]struct {
		IDs []int32 `json:"ids"`
	}
	if err := json.Unmarshal(c.SpecialTokens, &special); err != nil {
		return template{}, fmt.Errorf("special_tokens: %w", err)
	}
	parts := func(name string, raw json.RawMessage) ([]part, error) {
		var pieces []templatePiece
		if err := json.Unmarshal(raw, &pieces); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out := make([]part, len(pieces))
		for i, p := range pieces {
			var err error
			if out[i], err = p.part(func(id string) ([]int32, bool) {
				s, ok := special[id]
				return s.IDs,
					ok
			}); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		return out, nil
	}
	single, err := parts("single", c.Single)
	if err == nil && len(texts(single)) != 1 {
		err = fmt.Errorf("single: got %d sequences, want 1", len(texts(single)))
	}
	if err != nil || c.Pair == nil {
		return template{single: single, pair: append(single, part{second: true})}, err
	}
	pair, err := parts("pair", c.Pair)
	return template{single: single, pair: pair}, err
}

func texts(parts []part) (out []part) {
	for _, p := range parts {
		if p.ids == nil {
			out = append(out, p)
		}
	}
	return out
}

type templatePiece struct {
	SpecialToken, Sequence *struct {
		ID     string `json:"id"`
		TypeID int32  `json:"type_id"`
	}
}

func (p templatePiece) part(special func(string) ([]int32, bool)) (part, error) {
	switch {
	case p.Sequence != nil:
		return part{second: p.Sequence.ID == "B", typeID: p.Sequence.TypeID}, nil
	case p.SpecialToken == nil:
		return part{}, errors.New("want SpecialToken or Sequence")
	}
	ids, ok := special(p.SpecialToken.ID)
	if !ok || ids == nil {
		return part{}, fmt.Errorf("%q is not among the special_tokens", p.SpecialToken.ID)
	}
	return part{ids: ids, typeID: p.SpecialToken.TypeID}, nil
}
