package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/tokenizer"
)

// textTokenizer is a command's tokenizer, with the text of its file.
type textTokenizer struct {
	data.Tokenizer
	// text is the content of tokenizer.json; nil for bytes.
	text []byte
}

// openTokenizer reads the tokenizer at path, else that in the model's directory or file, else returns the
// bytes tokenizer.
func openTokenizer(path, dir string) (textTokenizer, error) {
	if path == "" && models.IsGGUF(dir) {
		return tokenizerOfFile(dir)
	}
	if path == "" && dir != "" {
		path = filepath.Join(dir, "tokenizer.json")
		if _, err := os.Stat(path); os.IsNotExist(err) {
			path = ""
		}
	}
	if path == "" {
		return textTokenizer{Tokenizer: data.Bytes{}}, nil
	}
	text, err := strict.ReadFile(path, strict.Tokenizer)
	if err != nil {
		return textTokenizer{}, err
	}
	t, err := tokenizer.Load(path)
	return textTokenizer{Tokenizer: t, text: text}, err
}

// tokenizerOfFile returns the tokenizer of a GGUF file, converted to tokenizer.json.
func tokenizerOfFile(path string) (textTokenizer, error) {
	text, err := models.GGUFTokenizer(path)
	if err != nil || text == nil {
		return textTokenizer{Tokenizer: data.Bytes{}}, err
	}
	t, err := tokenizer.Parse(text)
	if err != nil {
		return textTokenizer{}, fmt.Errorf("%s: its tokenizer: %w", path, err)
	}
	return textTokenizer{Tokenizer: t, text: text}, nil
}

// note prints a note if text is read as bytes by a model of another vocabulary, because it has no tokenizer.
func (t textTokenizer) note(dir string, vocab int) {
	if dir != "" && t.text == nil && vocab != t.VocabSize() {
		fmt.Fprintf(os.Stderr,
			"galley: note: %s has no tokenizer.json: text is read as bytes; --tokenizer names another\n", dir)
	}
}

// prompt returns the tokens of --prompt.
func (t textTokenizer) prompt(text string, vocab int) ([]int32, error) {
	ids := t.Encode(text)
	if len(ids) == 0 {
		return nil, fmt.Errorf("--prompt=%q: it has no tokens: want at least one", text)
	}
	if err := inVocabulary(ids, vocab); err != nil {
		return nil, fmt.Errorf("--prompt: %w", err)
	}
	return ids, nil
}

func inVocabulary(ids []int32, vocab int) error {
	for _, id := range ids {
		if int(id) >= vocab {
			return fmt.Errorf("token %d is outside the model's vocabulary of %d: give the model's own --tokenizer", id,
				vocab)
		}
	}
	return nil
}

// id returns the id of a token by its text.
func (t textTokenizer) id(token string) (int32, error) {
	named, ok := t.Tokenizer.(interface{ ID(string) (int32, bool) })
	if !ok {
		return 0, errors.New("bytes have no such token: want --tokenizer with it")
	}
	id, ok := named.ID(token)
	if !ok {
		return 0, errors.New("the tokenizer has no such token")
	}
	return id, nil
}

// plainTokenizer returns the tokenizer without the special tokens around a text.
func plainTokenizer(t data.Tokenizer) data.Tokenizer {
	if own, ok := t.(*tokenizer.Tokenizer); ok {
		return own.WithoutSpecial()
	}
	return t
}
