package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/galley-ml/galley/internal/strict"
)

// Load reads a tokenizer.json. An unsupported setting is an error that names the field. Only EncodeLimited
// truncates and pads, since training text must stay whole. The file must be a regular one of at most 256
// MiB.
func Load(path string) (*Tokenizer, error) {
	text, err := strict.ReadFile(path, strict.Tokenizer)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	return t, nil
}

// Parse is like Load for the content of a tokenizer.json.
func Parse(text []byte) (*Tokenizer, error) {
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

type fileJSON struct {
	AddedTokens   []addedToken `json:"added_tokens"`
	Normalizer    *component   `json:"normalizer"`
	PreTokenizer  *component   `json:"pre_tokenizer"`
	PostProcessor *component   `json:"post_processor"`
	Decoder       *component   `json:"decoder"`
	Model         *modelJSON   `json:"model"`

	Truncation *truncationJSON `json:"truncation"`
	Padding    *paddingJSON    `json:"padding"`
}

func parse(text []byte) (*Tokenizer, error) {
	var raw fileJSON
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	if raw.Model == nil {
		return nil, errors.New("no model")
	}
	t := &Tokenizer{encoders: &sync.Pool{New: func() any { return newEncoder() }}}
	steps := []func() error{
		func() (err error) { t.normalizers, err = raw.Normalizer.normalizers(); return err },
		func() (err error) { t.splitters, t.byteLetters, err = raw.PreTokenizer.splitters(); return err },
		func() (err error) { t.processors, err = raw.PostProcessor.processors(); return err },
		func() (err error) { t.decoders, err = raw.Decoder.decoders(); return err },
		func() (err error) { t.model, err = raw.Model.model(); return err },
		func() error { return t.setTokens() },
		func() error { return t.setAdded(raw.AddedTokens) },
		func() error { return t.setLimits(raw.Truncation, raw.Padding) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// setTokens sets the ids of the vocabulary's tokens.
func (t *Tokenizer) setTokens() error {
	vocab := t.model.vocabulary()
	t.ids, t.tokens, t.special = make(map[string]int32, len(vocab)), make(map[int32]string,
		len(vocab)), map[int32]bool{}
	t.shown, t.specialTexts = map[int32]string{}, map[string]bool{}
	for token, id := range vocab {
		if err := t.name(id, token); err != nil {
			return fmt.Errorf("model: vocab: %w", err)
		}
	}
	return nil
}

// name sets the token of an id.
func (t *Tokenizer) name(id int32, token string) error {
	if id < 0 {
		return fmt.Errorf("token %q: id: got %d, want at least 0", token, id)
	}
	if other, ok := t.tokens[id]; ok && other != token {
		first, second := min(token, other), max(token, other) // in an order that does not depend on the map's
		return fmt.Errorf("tokens %q and %q: both have id %d", first, second, id)
	}
	t.tokens[id], t.ids[token] = token, id
	t.size = max(t.size, int(id)+1)
	return nil
}

// setAdded sets the added tokens. A token that is also in the vocabulary keeps the vocabulary's id.
func (t *Tokenizer) setAdded(tokens []addedToken) error {
	var literal, normal []addedToken
	for _, a := range tokens {
		if id, ok := t.ids[a.Content]; ok {
			a.ID = id
		}
		if err := t.name(a.ID, a.Content); err != nil {
			return fmt.Errorf("added_tokens: %w", err)
		}
		if a.Special {
			t.special[a.ID], t.specialTexts[a.Content] = true, true
		}
		if a.Normalized {
			a.Content = t.normalizers.apply(aligned{text: a.Content}).text
			t.shown[a.ID] = a.Content
			normal = append(normal, a)
			continue
		}
		literal = append(literal, a)
	}
	t.literal, t.normal = newAddedTokens(literal), newAddedTokens(normal)
	return nil
}

// modelJSON is the model of a tokenizer.json, with the fields of all kinds.
type modelJSON struct {
	Type         string          `json:"type"`
	Dropout      float64         `json:"dropout"`
	UnkToken     *string         `json:"unk_token"`
	UnkID        *int32          `json:"unk_id"`
	Prefix       *string         `json:"continuing_subword_prefix"`
	Suffix       *string         `json:"end_of_word_suffix"`
	MaxChars     *int            `json:"max_input_chars_per_word"`
	FuseUnk      bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       []mergeJSON     `json:"merges"`

	vocab  map[string]int32
	scores []float64 // of a Unigram's tokens
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

// kind returns the model's type, which the oldest files do not name.
func (m *modelJSON) kind() string {
	switch {
	case m.Type != "":
		return m.Type
	case m.Merges != nil:
		return "BPE"
	case len(m.Vocab) > 0 && m.Vocab[0] == '[':
		return "Unigram"
	case m.MaxChars != nil:
		return "WordPiece"
	}
	return "WordLevel"
}

func (m *modelJSON) model() (model, error) {
	kind := m.kind()
	if err := m.readVocab(kind); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	switch kind {
	case "BPE":
		if m.Dropout != 0 {
			return nil, fmt.Errorf("model: dropout: got %v, want none", m.Dropout)
		}
		return newBPE(m)
	case "Unigram":
		if m.UnkID != nil && (*m.UnkID < 0 || int(*m.UnkID) >= len(m.scores)) {
			return nil, fmt.Errorf("model: unk_id: got %d, want one of %d tokens", *m.UnkID, len(m.scores))
		}
		return newUnigram(m), nil
	case "WordPiece":
		w := newWordPiece(m)
		var err error
		w.unknown, err = m.unknown("[UNK]")
		return w, err
	case "WordLevel":
		w := &wordLevel{vocab: m.vocab, unknown: -1}
		if id, ok := m.vocab[or(m.UnkToken, "<unk>")]; ok {
			w.unknown = id
		}
		return w, nil
	}
	return nil, fmt.Errorf("model: type: got %q, want BPE, Unigram, WordPiece or WordLevel", kind)
}

// unknown returns the id of the unknown token, which the vocabulary must have.
func (m *modelJSON) unknown(otherwise string) (int32, error) {
	name := or(m.UnkToken, otherwise)
	id, ok := m.vocab[name]
	if !ok {
		return 0, fmt.Errorf("model: unk_token: %q is not in the vocab", name)
	}
	return id, nil
}

// readVocab reads tokens with their ids, or a Unigram's tokens with their scores.
func (m *modelJSON) readVocab(kind string) error {
	if kind != "Unigram" {
		if err := json.Unmarshal(m.Vocab, &m.vocab); err != nil && m.Vocab != nil {
			return fmt.Errorf("vocab: %w", err)
		}
	} else if err := m.readScores(); err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	if len(m.vocab) == 0 {
		return errors.New("no vocab")
	}
	return nil
}

func (m *modelJSON) readScores() error {
	var rows []json.RawMessage
	if err := json.Unmarshal(m.Vocab, &rows); err != nil {
		return err
	}
	m.vocab, m.scores = make(map[string]int32, len(rows)), make([]float64, len(rows))
	for i, row := range rows {
		var token string
		if err := readPair(row, &token, &m.scores[i]); err != nil {
			return fmt.Errorf("%d: got %s, want a token and its score", i, row)
		}
		if _, ok := m.vocab[token]; ok {
			return fmt.Errorf("%d: token %q is there twice", i, token)
		}
		m.vocab[token] = int32(i)
	}
	return nil
}

// readPair reads a JSON list of two elements.
func readPair(raw json.RawMessage, first, second any) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	if len(parts) != 2 {
		return fmt.Errorf("got %d, want 2", len(parts))
	}
	return errors.Join(json.Unmarshal(parts[0], first), json.Unmarshal(parts[1], second))
}
