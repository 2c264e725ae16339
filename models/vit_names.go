package models

import (
	"encoding/json"
	"fmt"
)

func vitFamily() family {
	keys := llamaKeys()
	keys.eps, keys.positions = "layer_norm_eps", ""
	return family{
		name: "vit", architecture: "ViTForImageClassification", classifier: "ViTForImageClassification",
		base: "vit.",
		keys: keys, eps: 1e-12, positions: 1, activation: "gelu", pad: unpadded, encoder: true, images: true,
		read: readViT, write: writeViT, fill: fillViT, check: checkViT, build: buildViT,
		stored: storedNames{renamed: []string{
			"vit.layers.", "vit.encoder.layer.", ".attention.q_proj.", ".attention.attention.query.",
			".attention.k_proj.", ".attention.attention.key.", ".attention.v_proj.",
			".attention.attention.value.",
			".attention.o_proj.", ".attention.output.dense.", ".mlp.fc1.", ".intermediate.dense.",
			".mlp.fc2.", ".output.dense.",
		}},
	}
}

func readViT(r *reader, _ *family, c *Config) {
	c.Task = Classify
	c.Intermediate = r.count("intermediate_size", 3072)
	c.Image = Image{Size: r.pair("image_size", 224), Patch: r.pair("patch_size", 16),
		Channels: r.count("num_channels", 3)}
	c.AttentionBias = r.bool("qkv_bias", true)
	c.Dropout = Dropout{Residual: r.probability("hidden_dropout_prob"),
		Attention: r.probability("attention_probs_dropout_prob")}
	c.Labels = r.labels()
	for _, key := range []string{"encoder_stride", "pooler_act", "pooler_output_size"} {
		r.take(key) // of other heads
	}
}

// pair reads a height and a width, which may be written as one number.
func (r *reader) pair(key string, def int) [2]int {
	var both [2]int
	if v := r.raw[key]; len(v) > 0 && v[0] == '[' {
		if json.Unmarshal(r.take(key), &both) != nil || both[0] < 1 || both[1] < 1 {
			r.fail(key, "got %s, want one or two positive numbers", short(v))
		}
		return both
	}
	n := r.count(key, def)
	return [2]int{n, n}
}

func fillViT(_ *family, c *Config) {
	c.Task = Classify
	fill(&c.Labels, 2)
	fill(&c.Vocab, 1)
	c.Positions = c.Image.patches() + 1
}

func checkViT(c Config) error {
	i := c.Image
	if c.KVHeads != c.Heads || i.Channels < 1 || min(i.Patch[0], i.Patch[1]) < 1 || i.patches() < 1 ||
		i.Size[0]%i.Patch[0] != 0 || i.Size[1]%i.Patch[1] != 0 || max(i.Size[0], i.Size[1],
		i.Channels) > 1<<16 {
		return fmt.Errorf("image_size %v, patch_size %v, num_channels %d: want a whole number of patches",
			i.Size, i.Patch, i.Channels)
	}
	return nil
}

func writeViT(c Config, _ *family, m map[string]any) {
	for _, key := range []string{"vocab_size", "tie_word_embeddings"} {
		delete(m, key)
	}
	m["image_size"], m["patch_size"], m["num_channels"] = c.Image.Size, c.Image.Patch, c.Image.Channels
	m["qkv_bias"] = c.AttentionBias
	m["hidden_dropout_prob"], m["attention_probs_dropout_prob"] = number(c.Dropout.Residual),
		number(c.Dropout.Attention)
	if _, ok := m["id2label"]; !ok {
		m["num_labels"] = c.Labels
	}
}
