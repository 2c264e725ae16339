package forecast

import (
	"fmt"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// ConfigOf is a model of a shape that is known to the planner by its sizes alone, such as a preset: of the
// family that has such layers. Its Shape is the given one.
func ConfigOf(m plan.Model) (models.Config, error) {
	c := models.Config{Vocab: m.Vocab, Hidden: m.Hidden, Intermediate: m.FFN, Layers: m.Layers, Heads: m.Heads,
		KVHeads: m.KVHeads, HeadDim: m.HeadDim, Tied: m.Tied, InitStd: 0.02, Positions: m.Positions,
		Family: familyOf(m)}
	if x := m.Experts; m.MoE() {
		c.Experts, c.ExpertsPerToken, c.Mixture.Width = x.Count, x.TopK, x.FFN
		c.Mixture.Shared = x.Shared / max(1, x.FFN)
		for i := range m.Layers {
			c.Mixture.Dense = append(c.Mixture.Dense, i < x.Dense)
		}
	}
	if m.MLA() {
		l := m.Latent
		c.Latent = models.Latent{QRank: l.QRank, KVRank: l.KVRank, Plain: l.Nope, Turned: l.Rope, Value: l.V}
		c.Mixture.Routing = nn.Routing{Groups: 1, TopGroups: 1}
	}
	if c.Family == "mixtral" {
		c.Mixture = models.Mixture{}
	}
	back, err := Shape(c)
	if err == nil && (sameShape(m, back) != "" || c.Family == "") {
		err = fmt.Errorf("%s", sameShape(m, back))
	}
	if err != nil {
		return c, fmt.Errorf("model %s: no family of galley models has its shape: %w: give a config.json with --model",
			m.Name, err)
	}
	return c, nil
}

// familyOf is the family of models whose layers a shape has; empty where there is none.
func familyOf(m plan.Model) string {
	switch {
	case m.Encoder || m.Scans():
		return ""
	case m.MLA():
		return "deepseek_v3"
	case m.MoE() && m.Experts.Shared == 0 && m.Experts.Dense == 0 && m.Experts.FFN == m.FFN:
		return "mixtral"
	case m.LayerNorm:
		return "gpt2"
	case m.QKVBias:
		return "qwen2"
	}
	return "llama"
}
