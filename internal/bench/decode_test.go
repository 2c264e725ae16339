package bench

import (
	"testing"

	"github.com/galley-ml/galley/models"
)

// TestDecode: every format is timed, and smaller ones read less.
func TestDecode(t *testing.T) {
	last := 0
	for _, w := range []string{"int4", "int8", "bf16", "f32"} {
		r, err := Decode(DecodeConfig{Model: models.Config{Family: "llama", Vocab: 50, Hidden: 128, Intermediate: 256,
			Layers: 2, Heads: 4}, Weights: w, Sequences: 3, Prompt: 5, Threads: 1, Runs: 2})
		if err != nil {
			t.Fatal(err)
		}
		if r.Bytes <= last || r.Tokens <= 0 || r.Prefill <= 0 || r.Share <= 0 {
			t.Errorf("%+v: want more bytes than %d, and speeds", r, last)
		}
		last = r.Bytes
	}
}
