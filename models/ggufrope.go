package models

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/gguf"
	"github.com/galley-ml/galley/internal/packed"
)

// ggufRope is the tensor of what stretches each pair of a head.
const ggufRope = "rope_freqs.weight"

// fitsRope: positions are plain or stretched, of whole heads or of a part, with pairs where the file has
// them.
func (f ggufFamily) fitsRope(c Config) error {
	about, err := familyOf(c.Family)
	if err != nil || !about.rotary {
		return err
	}
	r := c.Rope
	own := r.AttentionFactor != 0 || r.MScale != r.MScaleAll || (r.MScale != 0) != f.latent || r.Untruncated
	switch local := c.RopeLocal.Type; {
	case local != "" && local != "default", r.part() != 1 && !f.part, r.Interleaved && !f.turned,
		r.Type == "yarn" && own, r.Type == "llama3" && f.arch != "llama",
		r.Type == "dynamic", r.Type == "longrope" && !r.same():
		return fmt.Errorf("positions of type %q are not written for llama.cpp as %s has them: want default, "+
			"linear or yarn", r.Type, c.Family)
	}
	return nil
}

// same reports whether pairs are stretched alike at every length, and nothing else: llama3, as it is read.
func (r Rope) same() bool {
	for i := range r.Short {
		if r.Short[i] != r.Long[i] {
			return false
		}
	}
	return r.AttentionFactor == 1
}

// ropeMeta says how positions are stretched.
func ropeMeta(c Config) map[string]any {
	r := c.Rope
	meta := map[string]any{"rope.freq_base": float32(r.Theta)}
	if r.Type != "linear" && r.Type != "yarn" {
		return meta
	}
	meta["rope.scaling.type"], meta["rope.scaling.factor"] = r.Type, float32(r.Factor)
	if r.Type == "linear" {
		return meta
	}
	meta["rope.scaling.original_context_length"] = uint32(r.OriginalPositions)
	for key, x := range map[string]float64{"yarn_beta_fast": r.BetaFast, "yarn_beta_slow": r.BetaSlow,
		"yarn_log_multiplier": r.MScaleAll / 10} {
		if x != 0 {
			meta["rope.scaling."+key] = float32(x)
		}
	}
	return meta
}

// ropeTensor returns what divides the frequency of each pair, where a file has it as a tensor.
func ropeTensor(c Config) []gguf.Stored {
	if c.Rope.Type != "llama3" && c.Rope.Type != "longrope" {
		return nil
	}
	plain := Rope{Type: "default", Theta: c.Rope.Theta, Part: c.Rope.Part}
	freqs := c.Rope.Frequencies(c.HeadDim, c.Positions)
	by := make([]float32, len(freqs))
	for i, f := range plain.Frequencies(c.HeadDim, c.Positions) {
		by[i] = float32(f / freqs[i])
	}
	return []gguf.Stored{{Name: ggufRope, Shape: array.Shape{len(by)}, Kind: gguf.F32,
		Data: array.FromSlice(by, len(by)).Bytes()}}
}

// stretched reads how positions are stretched.
func (m *metadata) stretched(config map[string]any, positions int) {
	rope := map[string]any{"rope_type": "default", "rope_theta": m.float("rope.freq_base", 10000)}
	factor := m.float("rope.scaling.factor", m.float("rope.scale_linear", 1))
	kind := m.string("rope.scaling.type", "linear")
	m.take("rope.scaling.original_context_length") // of yarn; there may be one without it
	switch {
	case kind == "yarn":
		m.yarn(rope, factor, positions)
	case kind == "linear" && factor != 1 && factor != 0:
		rope["rope_type"], rope["factor"] = kind, factor
	case kind != "linear" && kind != "none":
		m.fail("rope.scaling.type", "got %q, want none, linear or yarn", kind)
	}
	if by := m.ropeFactors(); by != nil {
		rope["rope_type"], rope["short_factor"], rope["long_factor"] = "longrope", by, by
		rope["attention_factor"], rope["original_max_position_embeddings"] = 1, positions
	}
	config["rope_parameters"] = rope
}

func (m *metadata) yarn(rope map[string]any, factor float64, positions int) {
	m.take("rope.scaling.finetuned")
	rope["rope_type"], rope["factor"] = "yarn", factor
	rope["original_max_position_embeddings"] = m.size("rope.scaling.original_context_length", positions)
	for _, end := range []string{"beta_fast", "beta_slow"} {
		if _, ok := m.Meta[m.arch+".rope.scaling.yarn_"+end]; ok {
			rope[end] = m.float("rope.scaling.yarn_"+end, 0)
		}
	}
	if _, ok := m.Meta[m.arch+".rope.scaling.yarn_log_multiplier"]; ok && m.arch == "deepseek2" {
		by := float64(float32(m.float("rope.scaling.yarn_log_multiplier", 0) * 10))
		rope["mscale"], rope["mscale_all_dim"] = by, by
	}
}

// ropeFactors returns the elements of the tensor that stretches pairs; nil if there is none.
func (m *metadata) ropeFactors() []float32 {
	t, ok := m.Tensor(ggufRope)
	if !ok || m.arch != "llama" {
		return nil
	}
	a, err := m.Read(ggufRope)
	by := make([]float32, t.Shape.Len())
	if err != nil || !packed.Floats(by, a, 0) {
		m.fail("rope.scaling.type", "%s: %v", ggufRope, err)
	}
	return by
}

func (m *metadata) string(key, def string) string {
	v, ok := m.take(key)
	if !ok {
		return def
	}
	s, ok := v.(string)
	if !ok {
		m.fail(key, "got %v, want a word", v)
	}
	return s
}
