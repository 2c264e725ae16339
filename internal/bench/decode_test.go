package bench

import (
	"path/filepath"
	"testing"

	"github.com/galley-ml/galley/models"
)

// TestDecode: every format is timed, and smaller ones read less.
func TestDecode(t *testing.T) {
	last := 0
	for _, w := range []string{"int4", "int8", "bf16", "f32"} {
		r, err := Decode(
			DecodeConfig{Model: models.Config{Family: "llama", Vocab: 50, Hidden: 128, Intermediate: 256,
				Layers: 2, Heads: 4}, Weights: w, Sequences: 3, Prompt: 5, Threads: 1, Runs: 2},
		)
		if err != nil {
			t.Fatal(err)
		}
		if r.Bytes <= last || r.Tokens <= 0 || r.Prefill <= 0 || r.Share <= 0 {
			t.Errorf("%+v: want more bytes than %d, and speeds", r, last)
		}
		last = r.Bytes
	}
}

// TestWriteModel: the random model is written, read again, and timed.
func TestWriteModel(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	c := models.Config{Family: "llama", Vocab: 300, Hidden: 64, Intermediate: 96, Layers: 2, Heads: 4}
	if err := WriteModel(dir, c); err != nil {
		t.Fatal(err)
	}
	w, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := Decode(
		DecodeConfig{Model: w.Model.Config(), Read: w.Read, Sequences: 1, Prompt: 5, Threads: 1, Runs: 2},
	)
	if err != nil || r.Tokens <= 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestSpeculate: a text that repeats itself is guessed right.
func TestSpeculate(t *testing.T) {
	r, err := Speculate(
		DecodeConfig{Model: models.Config{Family: "llama", Vocab: 60, Hidden: 64, Intermediate: 96,
			Layers: 2, Heads: 4}, Weights: "f32", Threads: 1, Runs: 20},
		4,
	)
	if err != nil || r.Plain <= 0 || r.Guessing <= 0 || r.Right < 0.9 {
		t.Errorf("got %+v, %v, want right guesses", r, err)
	}
}
