package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// LoadTokenizer reads a Hugging Face tokenizer.json that holds a byte-level BPE. What it cannot do as the file says
// is an error that names the field; truncation and padding are not a tokenizer's to decide and are ignored.
func LoadTokenizer(path string) (*BPE, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	b, err := parseTokenizer(text)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	return b, nil
}

// ParseTokenizer reads the text of a tokenizer.json; see LoadTokenizer.
func ParseTokenizer(text []byte) (*BPE, error) {
	b, err := parseTokenizer(text)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return b, nil
}

type tokenizerJSON struct {
	AddedTokens   []addedToken `json:"added_tokens"`
	Normalizer    *component   `json:"normalizer"`
	PreTokenizer  *component   `json:"pre_tokenizer"`
	PostProcessor *component   `json:"post_processor"`
	Decoder       *component   `json:"decoder"`
	Model         *modelJSON   `json:"model"`
}

type modelJSON struct {
	Type         string           `json:"type"`
	Dropout      float64          `json:"dropout"`
	UnkToken     string           `json:"unk_token"`
	Prefix       string           `json:"continuing_subword_prefix"`
	Suffix       string           `json:"end_of_word_suffix"`
	FuseUnk      bool             `json:"fuse_unk"`
	ByteFallback bool             `json:"byte_fallback"`
	IgnoreMerges bool             `json:"ignore_merges"`
	Vocab        map[string]int32 `json:"vocab"`
	Merges       []mergeJSON      `json:"merges"`
}

// mergeJSON is a pair of tokens, as ["a","b"] or, in older files, as "a b".
type mergeJSON struct{ left, right string }

func (m *mergeJSON) UnmarshalJSON(text []byte) error {
	var parts []string
	if err := json.Unmarshal(text, &parts); err != nil {
		var line string
		if err := json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("merges: got %s, want two tokens", text)
		}
		parts = strings.Split(line, " ")
	}
	if len(parts) != 2 {
		return fmt.Errorf("merges: got %s, want two tokens", text)
	}
	m.left, m.right = parts[0], parts[1]
	return nil
}

func parseTokenizer(text []byte) (*BPE, error) {
	var raw tokenizerJSON
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	if raw.Model == nil {
		return nil, errors.New("no model")
	}
	b := &BPE{}
	steps := []func() error{
		func() error { return b.setNormalizer(raw.Normalizer) },
		func() error { return b.setModel(raw.Model) },
		func() error { return b.setAdded(raw.AddedTokens) },
		func() error { return b.setSplits(raw.PreTokenizer) },
		func() error { return b.setTemplate(raw.PostProcessor) },
		func() error { return checkDecoder(raw.Decoder) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (m *modelJSON) check() error {
	switch {
	case m.Type != "BPE" && m.Type != "": // the oldest files do not say
		return fmt.Errorf("model: type: got %q, want BPE", m.Type)
	case len(m.Vocab) == 0:
		return errors.New("model: no vocab")
	case m.Dropout != 0:
		return fmt.Errorf("model: dropout: got %v, want none", m.Dropout)
	case m.Prefix != "":
		return fmt.Errorf("model: continuing_subword_prefix: got %q, want none", m.Prefix)
	case m.Suffix != "":
		return fmt.Errorf("model: end_of_word_suffix: got %q, want none", m.Suffix)
	}
	return nil
}

func (b *BPE) setModel(m *modelJSON) error {
	if err := m.check(); err != nil {
		return err
	}
	b.vocab, b.tokens = m.Vocab, make(map[int32]string, len(m.Vocab))
	b.fuseUnk, b.fallback, b.wholeWord = m.FuseUnk, m.ByteFallback, m.IgnoreMerges
	for token, id := range m.Vocab {
		if err := b.name(id, token); err != nil {
			return fmt.Errorf("model: vocab: %w", err)
		}
	}
	for c := range b.starts {
		b.starts[c] = b.startOf(byte(c), m.UnkToken)
	}
	return b.setMerges(m.Merges)
}

// name gives an id its token.
func (b *BPE) name(id int32, token string) error {
	if id < 0 {
		return fmt.Errorf("token %q: id: got %d, want at least 0", token, id)
	}
	if other, ok := b.tokens[id]; ok && other != token {
		first, second := min(token, other), max(token, other) // not in a map's order
		return fmt.Errorf("tokens %q and %q: both have id %d", first, second, id)
	}
	b.tokens[id] = token
	b.size = max(b.size, int(id)+1)
	return nil
}

func (b *BPE) setMerges(merges []mergeJSON) error {
	b.merges = make(map[pair]merge, len(merges))
	for i, m := range merges {
		left, okLeft := b.vocab[m.left]
		right, okRight := b.vocab[m.right]
		both, okBoth := b.vocab[m.left+m.right]
		if !okLeft || !okRight || !okBoth {
			return fmt.Errorf("model: merges: %d: %q and %q: they or their join are not in the vocab", i, m.left, m.right)
		}
		b.merges[pair{left, right}] = merge{rank: int32(i), id: both}
	}
	return nil
}

// setAdded takes in the added tokens. A token that the vocab has as well keeps the vocab's id.
func (b *BPE) setAdded(tokens []addedToken) error {
	var literal, normal []addedToken
	for _, t := range tokens {
		if id, ok := b.vocab[t.Content]; ok {
			t.ID = id
		}
		if err := b.name(t.ID, t.Content); err != nil {
			return fmt.Errorf("added_tokens: %w", err)
		}
		b.vocab[t.Content] = t.ID
		if t.Normalized {
			if b.normalize != nil {
				t.Content = b.normalize(t.Content)
			}
			normal = append(normal, t)
			continue
		}
		literal = append(literal, t)
	}
	b.literal, b.normal = newAddedTokens(literal), newAddedTokens(normal)
	return nil
}
