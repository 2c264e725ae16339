package plan

import (
	"encoding/json"
	"fmt"
)

// hfConfig is what a transformer's config.json of the Hugging Face Hub may say about its shape.
type hfConfig struct {
	Type      string `json:"model_type"`
	Layers    int    `json:"num_hidden_layers"`
	Hidden    int    `json:"hidden_size"`
	Heads     int    `json:"num_attention_heads"`
	KVHeads   int    `json:"num_key_value_heads"`
	HeadDim   int    `json:"head_dim"`
	FFN       int    `json:"intermediate_size"`
	Vocab     int    `json:"vocab_size"`
	Tied      *bool  `json:"tie_word_embeddings"`
	Bias      bool   `json:"attention_bias"`
	Window    int    `json:"sliding_window"`
	UseWindow *bool  `json:"use_sliding_window"`
	Positions int    `json:"max_position_embeddings"`
	// GPT-2's names.
	NLayer     int `json:"n_layer"`
	NEmbd      int `json:"n_embd"`
	NHead      int `json:"n_head"`
	NInner     int `json:"n_inner"`
	NPositions int `json:"n_positions"`
	// Experts, by several families' names.
	Experts1  int `json:"num_local_experts"`
	Experts2  int `json:"num_experts"`
	Experts3  int `json:"n_routed_experts"`
	TopK      int `json:"num_experts_per_tok"`
	ExpertFFN int `json:"moe_intermediate_size"`
	Shared    int `json:"n_shared_experts"`
	SharedFFN int `json:"shared_expert_intermediate_size"`
	Dense     int `json:"first_k_dense_replace"`
	// Latent attention.
	QRank  int `json:"q_lora_rank"`
	KVRank int `json:"kv_lora_rank"`
	Nope   int `json:"qk_nope_head_dim"`
	Rope   int `json:"qk_rope_head_dim"`
	V      int `json:"v_head_dim"`
}

// ParseModel reads a Hugging Face config.json.
func ParseModel(name string, text []byte) (Model, error) {
	var c hfConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return Model{}, fmt.Errorf("model %s: config.json: %w", name, err)
	}
	m := Model{
		Name: name, Layers: first(c.Layers, c.NLayer), Hidden: first(c.Hidden, c.NEmbd), Heads: first(c.Heads, c.NHead), KVHeads: c.KVHeads,
		HeadDim: c.HeadDim, FFN: first(c.FFN, c.NInner), Vocab: c.Vocab, Gated: true, Bias: c.Bias,
		Latent: Latent{QRank: c.QRank, KVRank: c.KVRank, Nope: c.Nope, Rope: c.Rope, V: c.V},
	}
	if c.Tied != nil {
		m.Tied = *c.Tied
	}
	if c.UseWindow == nil || *c.UseWindow {
		m.Window = c.Window
	}
	c.family(&m)
	if n := first(c.Experts1, c.Experts2, c.Experts3); n > 0 {
		width := first(c.ExpertFFN, c.FFN)
		m.Experts = Experts{Count: n, TopK: c.TopK, FFN: width, Shared: first(c.SharedFFN, c.Shared*width), Dense: c.Dense}
	}
	if m.MLA() {
		m.KVHeads, m.HeadDim = 0, 0
	}
	return m, m.Check()
}

// family sets what a family's configurations leave unsaid.
func (c *hfConfig) family(m *Model) {
	switch c.Type {
	case "gpt2", "gpt_neo", "gptj", "gpt_neox", "opt", "bloom", "mpt", "falcon":
		m.Gated, m.LayerNorm, m.Bias = false, true, c.Type != "mpt"
		m.FFN = first(m.FFN, 4*m.Hidden)
		if c.Type == "gpt2" || c.Type == "opt" || c.Type == "gpt_neo" {
			m.Positions = first(c.NPositions, c.Positions)
		}
		if c.Tied == nil {
			m.Tied = c.Type != "gptj" && c.Type != "gpt_neox"
		}
	case "qwen2", "qwen2_moe":
		m.QKVBias = true
	case "gemma", "gemma2":
		m.Tied = c.Tied == nil || *c.Tied
	}
}

// first is the first number that is not 0.
func first(ns ...int) int {
	for _, n := range ns {
		if n != 0 {
			return n
		}
	}
	return 0
}
