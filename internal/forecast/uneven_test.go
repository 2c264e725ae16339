package forecast_test

import (
	"slices"
	"testing"

	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/strategy"
)

// TestReplan says that a process at half speed is given less of a pipeline, that this gains, and that nothing
// moves where all are alike.
func TestReplan(t *testing.T) {
	c, err := models.ParseConfig([]byte(`{"model_type": "llama", "num_hidden_layers": 12, "hidden_size": 64,
		"num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 128, "max_position_embeddings": 64}`))
	if err != nil {
		t.Fatal(err)
	}
	run := forecast.Run{Model: c, Batch: 64, Seq: 64, Devices: 2}
	now := strategy.Strategy{DP: 2}
	if now, err = now.ForBatch(64); err != nil {
		t.Fatal(err)
	}
	best, seconds, err := forecast.Replan(run, now, []float64{1, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	l := best.Strategy.Layers
	if best.Strategy.PP != 2 || len(l) != 2 || l[0] <= l[1] {
		t.Errorf("got %s with layers %v, want a pipeline with less on the slow process", best.Strategy, l)
	}
	if best.Estimate.Step > 0.9*seconds {
		t.Errorf("%g s a step in place of %g: want a gain", best.Estimate.Step, seconds)
	}
	back, _, err := forecast.Replan(run, now, []float64{0.5, 1})
	if err != nil || !slices.IsSorted(back.Strategy.Layers) {
		t.Errorf("the first is slow: layers %v, %v", back.Strategy.Layers, err)
	}
	if _, _, err := forecast.Replan(run, now, []float64{1, 1, 1}); err == nil {
		t.Error("two devices for three processes: want an error")
	}
}
