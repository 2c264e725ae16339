package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// byteBPE is a byte-level BPE tokenizer in llama.cpp's form.
type byteBPE struct {
	pre            string
	tokens, merges []string
	kinds          []int32
}

// Token types.
const (
	tokenNormal  = 1
	tokenControl = 3
	tokenUser    = 4
	tokenUnused  = 5
)

// parseBPE returns the tokenizer of a tokenizer.json; nil if it is of another kind.
func parseBPE(text []byte, vocab int) (*byteBPE, error) {
	var t struct {
		Model struct {
			Type         string            `json:"type"`
			Vocab        map[string]int    `json:"vocab"`
			Merges       []json.RawMessage `json:"merges"`
			ByteFallback bool              `json:"byte_fallback"`
		} `json:"model"`
		Added []struct {
			ID      int    `json:"id"`
			Content string `json:"content"`
			Special bool   `json:"special"`
		} `json:"added_tokens"`
		Pre json.RawMessage `json:"pre_tokenizer"`
	}
	if err := json.Unmarshal(text, &t); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, nil // the vocabulary of another kind of model
		}
		return nil, err
	}
	if t.Model.Type != "BPE" || t.Model.ByteFallback {
		return nil, nil
	}
	b := &byteBPE{pre: preTokenizer(string(t.Pre)), tokens: make([]string, vocab), kinds: make([]int32, vocab)}
	for i := range b.tokens {
		b.tokens[i], b.kinds[i] = fmt.Sprintf("[PAD%d]", i), tokenUnused
	}
	for s, id := range t.Model.Vocab {
		if id >= 0 && id < vocab {
			b.tokens[id], b.kinds[id] = s, tokenNormal
		}
	}
	for _, a := range t.Added {
		if a.ID < 0 || a.ID >= vocab {
			continue
		}
		b.tokens[a.ID], b.kinds[a.ID] = a.Content, tokenUser
		if a.Special {
			b.kinds[a.ID] = tokenControl
		}
	}
	return b, b.readMerges(t.Model.Merges)
}

// bytesAsBPE returns the tokenizer of a byte-level model: each byte is a token, spelled as in byte-level BPE,
// without merges. It is nil if the vocabulary has another size.
func bytesAsBPE(vocab int) *byteBPE {
	if vocab != 256 {
		return nil
	}
	b := &byteBPE{pre: "gpt-2", merges: []string{}}
	next := rune(256)
	for i := range rune(256) {
		c := i
		if i < '!' || i > '~' && i < 0xa1 || i == 0xad { // unprintable: spelled by printable ones
			c, next = next, next+1
		}
		b.tokens, b.kinds = append(b.tokens, string(c)), append(b.kinds, tokenNormal)
	}
	return b
}

// readMerges reads merges that are written as one string or as two.
func (b *byteBPE) readMerges(list []json.RawMessage) error {
	for i, m := range list {
		var one string
		var two []string
		if json.Unmarshal(m, &one) != nil {
			if json.Unmarshal(m, &two) != nil || len(two) != 2 {
				return fmt.Errorf("merge %d: got %s, want two tokens", i, short(m))
			}
			one = two[0] + " " + two[1]
		}
		b.merges = append(b.merges, one)
	}
	return nil
}

// preTokenizer returns llama.cpp's name of a pre-tokenizer.
func preTokenizer(pre string) string {
	switch {
	case strings.Contains(pre, `\\p{N}{1,3}`):
		return "llama-bpe"
	case strings.Contains(pre, `\\p{N}|`):
		return "qwen2"
	}
	return "gpt-2"
}
