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
	now := strategy.Strategy{DP: 2, Zero: 1}
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
	if best.Estimate.Step > 0.9*seconds || best.Estimate.Step < seconds/1.55 {
		t.Errorf("%g s a step in place of %g: want a gain, and hardly more than the processes have together: 1.5",
			best.Estimate.Step, seconds)
	}
	if best.Strategy.Micro < 2 {
		t.Errorf("%s: stages that wait for one batch gain nothing", best.Strategy)
	}
	back, _, err := forecast.Replan(run, now, []float64{0.5, 1})
	if err != nil || !slices.IsSorted(back.Strategy.Layers) {
		t.Errorf("the first is slow: layers %v, %v", back.Strategy.Layers, err)
	}
	if _, _, err := forecast.Replan(run, now, []float64{1, 1, 1}); err == nil {
		t.Error("two devices for three processes: want an error")
	}
}

// replanned returns the best strategy for a llama on two processes, the second at half speed, and its gain.
func replanned(t *testing.T, sizes string) (forecast.Candidate, float64) {
	t.Helper()
	c, err := models.ParseConfig([]byte(`{"model_type": "llama", "max_position_embeddings": 64, ` + sizes + `}`))
	if err != nil {
		t.Fatal(err)
	}
	run := forecast.Run{Model: c, Batch: 16, Seq: 64, Devices: 2,
		Hosts: []forecast.Host{{Machine: "a", Processes: 2, Cores: 2}}}
	now, err := strategy.Strategy{DP: 2, Zero: 1}.ForBatch(16)
	if err != nil {
		t.Fatal(err)
	}
	best, seconds, err := forecast.Replan(run, now, []float64{1, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	return best, seconds / best.Estimate.Step
}

// TestReplanRefuses: no move is said to gain much where layers are too few to be cut.
func TestReplanRefuses(t *testing.T) {
	two := `"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 352,
		"vocab_size": 256`
	if best, gain := replanned(t, two); gain > 1.1 {
		t.Errorf("two layers: %s with layers %v gains %.2f times", best.Strategy, best.Strategy.Layers, gain)
	}
	eight := `"num_hidden_layers": 8, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 352,
		"vocab_size": 256`
	if best, gain := replanned(t, eight); gain < 1.1 {
		t.Errorf("eight layers: %s with layers %v gains %.2f times", best.Strategy, best.Strategy.Layers, gain)
	}
}

// TestEstimateUneven: half of the speed is twice the time of computing, and nothing changes where all are
// alike.
func TestEstimateUneven(t *testing.T) {
	c, err := models.ParseConfig(config(configs[0]))
	if err != nil {
		t.Fatal(err)
	}
	run := forecast.Run{Model: c, Batch: 64, Seq: 64, Devices: 2}
	s := strategy.Strategy{DP: 2}
	of := func(speeds ...float64) float64 {
		e, err := forecast.EstimateUneven(run, s, speeds)
		if err != nil {
			t.Fatal(err)
		}
		return e.Parts.Compute
	}
	whole, err := forecast.Estimate(run, s)
	if err != nil {
		t.Fatal(err)
	}
	if of(1, 1) != whole.Parts.Compute || of(1, 0.5) < 1.99*of(1, 1) || of(1, 0.5) > 2.01*of(1, 1) {
		t.Errorf("computing takes %g s, %g s on equal processes, %g s with one at half speed", whole.Parts.Compute,
			of(1, 1), of(1, 0.5))
	}
}
