package main

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/galley-ml/galley/tokenizer"
)

// tokenizerCmd groups the commands that make tokenizers.
type tokenizerCmd struct {
	Train tokenizerTrainCmd `cmd:"" help:"Make a byte-level BPE tokenizer from texts."`
}

type tokenizerTrainCmd struct {
	Files    []string `arg:"" help:"Texts to learn from, in UTF-8." type:"existingfile"`
	Out      string   `help:"File to write." default:"tokenizer.json" placeholder:"FILE"`
	Vocab    int      `help:"Tokens at the most, the 256 bytes and special ones included." default:"32000"`
	MinCount int      `help:"Occurrences that a pair needs to become a token." default:"2"`
	Special  []string `help:"Tokens that are never cut, in the order of their ids." default:"<|endoftext|>"`
	Split    string   `help:"Regular expression that cuts text into words; without it GPT-2's." placeholder:"REGEX"`
}

// Help returns the text that galley tokenizer train --help adds.
func (tokenizerTrainCmd) Help() string {
	return `Pairs of neighbours within words merge, the most frequent first, as Hugging Face's BpeTrainer has it:
the same texts and options give the same file. Hugging Face's library reads it, and so do galley train and
generate.

Examples:
  galley tokenizer train notes.txt --vocab 4096
  galley train --data notes.txt --tokenizer tokenizer.json --save out`
}

func (c *tokenizerTrainCmd) Run() error {
	if err := natural(map[string]int{"vocab": c.Vocab, "min-count": c.MinCount}); err != nil {
		return err
	}
	var failed error
	p := func(tokens int) { fmt.Fprintf(os.Stderr, "%d of %d tokens\n", tokens, c.Vocab) }
	text, err := tokenizer.Train(c.lines(&failed),
		tokenizer.TrainConfig{VocabSize: c.Vocab, MinCount: c.MinCount,
			Special: c.Special, Split: c.Split, Progress: every(4096, p)})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	if err := writeFile(c.Out, text); err != nil {
		return err
	}
	t, err := tokenizer.Parse(text)
	if err == nil {
		fmt.Printf("%s: %d tokens\n", c.Out, t.VocabSize())
	}
	return err
}

// every returns a function that calls f for multiples of n only.
func every(n int, f func(int)) func(int) {
	return func(i int) {
		if i%n == 0 {
			f(i)
		}
	}
}

// lines yields the lines of all files; it stops at an error, which it stores in failed.
func (c *tokenizerTrainCmd) lines(failed *error) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, path := range c.Files {
			text, err := os.ReadFile(path)
			if err == nil && !utf8.Valid(text) {
				err = fmt.Errorf("%s: it is not UTF-8 text", path)
			}
			if err != nil {
				*failed = err
				return
			}
			for line := range strings.Lines(string(text)) {
				if !yield(line) {
					return
				}
			}
		}
	}
}

// writeFile writes a file atomically.
func writeFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".galley-*")
	if err != nil {
		return reason(path, err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return reason(path, err)
	}
	return nil
}
