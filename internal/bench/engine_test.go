package bench

import (
	"testing"

	"github.com/galley-ml/galley/models"
)

// TestEngine: every part is timed.
func TestEngine(t *testing.T) {
	r, err := Engine(EngineConfig{Long: 100, DecodeConfig: DecodeConfig{Weights: "bf16", Sequences: 2, Prompt: 5,
		Threads: 1, Runs: 3, Model: models.Config{Family: "llama", Vocab: 50, Hidden: 32, Intermediate: 64,
			Layers: 1,
			Heads:  4}}})
	if err != nil {
		t.Fatal(err)
	}
	if r.First <= 0 || r.Again <= 0 || r.Alone.P50 <= 0 || r.During.P99 <= 0 || r.Engine <= 0 || r.Server <= 0 ||
		r.ServerCPU <= 0 {
		t.Errorf("got %+v", r)
	}
}
