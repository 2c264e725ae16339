package models

import (
	"fmt"
	"math"
)

func rwkv7Family() family {
	return family{
		name: "rwkv7", architecture: "RWKV7ForCausalLM", base: "model.", embedding: "embeddings.weight",
		keys: keys{
			hidden: "hidden_size", intermediate: "intermediate_size", layers: "num_hidden_layers",
			positions: "max_position_embeddings", eps: "norm_eps", activation: "hidden_act",
		},
		eps: 1e-5, positions: 2048, activation: "sqrelu", pad: unpadded, recurrent: true,
		read: readRWKV7, write: writeRWKV7, fill: fillRWKV7, check: checkRWKV7, build: buildRWKV7,
		stored: storedNames{heads: []string{"lm_head.weight"}},
	}
}

// readRWKV7 derives the number of heads from their size, as flash-linear-attention does.
func readRWKV7(r *reader, f *family, c *Config) {
	heads := r.count("num_heads", 0)
	c.HeadDim = r.countUnlessNull("head_dim", 64)
	if c.HeadDim > 0 {
		heads = c.Hidden / c.HeadDim
	}
	c.Heads = heads
	c.Intermediate = r.count("intermediate_size", rwkv7Inner(c.Hidden, r.float("hidden_ratio", 4)))
	k := &c.Recurrence
	k.Ranks = RWKVRanks{
		Decay: r.count("decay_low_rank_dim", 0), Gate: r.count("gate_low_rank_dim", 0),
		Rate: r.count("a_low_rank_dim", 0), Value: r.count("v_low_rank_dim", 0),
	}
	k.NormFirst, k.Warp = r.bool("norm_first", true), r.bool("use_l2warp", false)
	if !r.bool("norm_bias", true) {
		r.fail("norm_bias", "not supported: got false, want true")
	}
	r.sameValues(c.Hidden)
	for _, key := range []string{"attn_mode", "fuse_norm", "fuse_cross_entropy", "fuse_linear_cross_entropy"} {
		r.take(key) // they choose between equivalent kernels
	}
}

// rwkv7Inner returns the default inner size of the feed-forward layers.
func rwkv7Inner(hidden int, ratio float64) int { return (int(float64(hidden)*ratio) + 31) / 32 * 32 }

// sameValues refuses values of another size than the hidden states.
func (r *reader) sameValues(hidden int) {
	for i, n := range get(r, "value_dim", "a list of numbers", []int(nil)) {
		if n != hidden {
			r.fail("value_dim", "not supported: got %d in layer %d, want hidden_size, %d", n, i, hidden)
		}
	}
}

// fillRWKV7 sets the default sizes of low-rank layers.
func fillRWKV7(_ *family, c *Config) {
	fill(&c.Intermediate, rwkv7Inner(c.Hidden, 4))
	rank := func(share float64) int { return max(32, int(math.RoundToEven(share/32))*32) }
	root, wide := math.Sqrt(float64(c.Hidden)), float64(c.HeadDim)/64
	ranks := &c.Recurrence.Ranks
	fill(&ranks.Decay, rank(2.5*root*wide))
	fill(&ranks.Rate, rank(2.5*root*wide))
	fill(&ranks.Value, rank(1.7*root*wide))
	fill(&ranks.Gate, rank(5*root))
	fill(&c.Recurrence.Chunk, 16)
}

func checkRWKV7(c Config) error {
	r := c.Recurrence.Ranks
	switch {
	case c.KVHeads != c.Heads || c.Heads*c.HeadDim != c.Hidden:
		return fmt.Errorf("rwkv7: %d heads of %d: together want hidden_size, %d", c.Heads, c.HeadDim, c.Hidden)
	case c.Activation != "sqrelu":
		return fmt.Errorf("hidden_act %q: not supported: want sqrelu", c.Activation)
	case max(r.Decay, r.Rate, r.Value, r.Gate, c.Recurrence.Chunk) > maxSize:
		return fmt.Errorf("rwkv7: low-rank sizes %+v: want at most %d", r, maxSize)
	}
	return nil
}

func writeRWKV7(c Config, _ *family, m map[string]any) {
	r := c.Recurrence.Ranks
	m["head_dim"], m["num_heads"], m["norm_first"] = c.HeadDim, c.Heads, c.Recurrence.NormFirst
	m["decay_low_rank_dim"], m["gate_low_rank_dim"] = r.Decay, r.Gate
	m["a_low_rank_dim"], m["v_low_rank_dim"] = r.Rate, r.Value
	m["use_l2warp"] = c.Recurrence.Warp
}
