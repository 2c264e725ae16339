package forecast

import (
	"testing"

	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/strategy"
)

// TestShifted: the stage with a large head has fewer layers than the other, on processes of equal speed.
func TestShifted(t *testing.T) {
	for _, vocab := range []string{"128", "8192"} {
		m, err := models.ParseConfig([]byte(`{"model_type": "llama", "num_hidden_layers": 12, "hidden_size": 64,
			"num_attention_heads": 4, "intermediate_size": 96, "max_position_embeddings": 64, "vocab_size": ` +
			vocab + `}`))
		if err != nil {
			t.Fatal(err)
		}
		e, _, err := Run{Model: m, Batch: 64, Seq: 64, Devices: 2}.uneven([]float64{1, 1})
		if err != nil {
			t.Fatal(err)
		}
		s := strategy.Strategy{PP: 2, Micro: 16, Layers: []int{6, 6}}
		even, err := e.Estimate(s)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := shifted(e, s)
		l := got.Strategy.Layers
		if !ok || (l[0] > l[1]) != (vocab == "8192") || got.Estimate.Step > even.Step {
			t.Errorf("%s tokens: layers %v: %g s, %g s with equal stages", vocab, l, got.Estimate.Step, even.Step)
		}
	}
}
