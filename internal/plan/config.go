package plan

import (
	"encoding/json"
	"fmt"
	"slices"
)

// hfConfig holds the keys of a Hugging Face config.json that describe a transformer's shape.
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
	MLPBias   bool   `json:"mlp_bias"`
	Window    int    `json:"sliding_window"`
	UseWindow *bool  `json:"use_sliding_window"`
	Positions int    `json:"max_position_embeddings"`
	PadToken  *int   `json:"pad_token_id"`
	// Types names each layer's attention; every Pattern-th layer has no sliding window.
	Types   []string `json:"layer_types"`
	Pattern int      `json:"sliding_window_pattern"`
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
	// ERNIE's names.
	Experts4   int   `json:"moe_num_experts"`
	MoETopK    int   `json:"moe_k"`
	Shared2    int   `json:"moe_num_shared_experts"`
	MoEStart   int   `json:"moe_layer_start_index"`
	MoEEnd     *int  `json:"moe_layer_end_index"`
	MoEStep    int   `json:"moe_layer_interval"`
	UseBias    *bool `json:"use_bias"`
	DenseOnly  []int `json:"mlp_only_layers"`
	SparseStep int   `json:"decoder_sparse_step"`
	// Those of encoders.
	TokenTypes int            `json:"type_vocab_size"`
	Image      pixels         `json:"image_size"`
	Patch      pixels         `json:"patch_size"`
	Channels   int            `json:"num_channels"`
	Labels     map[string]any `json:"id2label"`
	TokenWidth int            `json:"embedding_size"`
	// DistilBERT's and Falcon's names.
	Dim       int   `json:"dim"`
	HiddenDim int   `json:"hidden_dim"`
	NLayers   int   `json:"n_layers"`
	NHeads    int   `json:"n_heads"`
	FalconFFN int   `json:"ffn_hidden_size"`
	FalconKV  int   `json:"num_kv_heads"`
	NewBlocks bool  `json:"new_decoder_architecture"`
	Parallel  *bool `json:"parallel_attn"`
	NormCount *int  `json:"num_ln_in_parallel_attn"`
	AnyBias   bool  `json:"bias"`
	// Norms and biases of queries and keys, by several families' names.
	QKNorm1    bool  `json:"use_qk_norm"`
	QKNorm2    bool  `json:"qk_layernorm"`
	QKVBias1   *bool `json:"qkv_bias"`
	QKVBias2   bool  `json:"use_qkv_bias"`
	SideBySide bool  `json:"use_parallel_residual"`
	// Those of recurrent models.
	StepRank  int     `json:"time_step_rank"`
	NumHeads  int     `json:"num_heads"`
	Expand    float64 `json:"expand"`
	States    int     `json:"state_size"`
	Groups    int     `json:"n_groups"`
	Kernel    int     `json:"conv_kernel"`
	ConvBias  *bool   `json:"use_conv_bias"`
	AttnWidth int     `json:"attention_hidden_size"`
	DecayRank int     `json:"decay_low_rank_dim"`
	GateRank  int     `json:"gate_low_rank_dim"`
	RateRank  int     `json:"a_low_rank_dim"`
	ValueRank int     `json:"v_low_rank_dim"`
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
		Name: name, Layers: first(c.Layers, c.NLayer, c.NLayers), Hidden: first(c.Hidden, c.NEmbd, c.Dim),
		Heads: first(c.Heads, c.NHead, c.NHeads), KVHeads: first(c.KVHeads, c.FalconKV),
		HeadDim: c.HeadDim, FFN: first(c.FFN, c.NInner, c.HiddenDim, c.FalconFFN), Vocab: c.Vocab, Gated: true,
		Latent: Latent{QRank: c.QRank, KVRank: c.KVRank, Nope: c.Nope, Rope: c.Rope, V: c.V},
	}
	if c.Tied != nil {
		m.Tied = *c.Tied
	}
	c.window(&m)
	c.family(&m)
	c.biases(&m)
	if n := first(c.Experts1, c.Experts2, c.Experts3, c.Experts4); n > 0 {
		width := first(c.ExpertFFN, c.FFN)
		m.Experts = Experts{Count: n, TopK: first(c.TopK, c.MoETopK), FFN: width,
			Shared: first(c.SharedFFN, first(c.Shared, c.Shared2)*width), Dense: c.denseLayers(),
			Bias: c.Type == "deepseek_v3" || c.Type == "ernie4_5_moe" || c.Type == "kimi_k2" ||
				c.Type == "glm4_moe",
			SharedGate: c.Type == "qwen2_moe"}
	}
	if m.MLA() {
		m.KVHeads, m.HeadDim = 0, 0
	}
	return m, m.Check()
}

// window sets which layers have a sliding window.
func (c *hfConfig) window(m *Model) {
	if c.Window == 0 || c.UseWindow != nil && !*c.UseWindow {
		return
	}
	n := m.Layers
	switch {
	case len(c.Types) > 0:
		n = 0
		for _, t := range c.Types {
			n += index(t == "sliding_attention")
		}
	case c.Pattern > 0:
		n -= m.Layers / c.Pattern
	case c.Type == "gemma2":
		n -= m.Layers / 2
	case c.Type == "gemma3_text":
		n -= m.Layers / 6
	}
	if n > 0 {
		m.Window = c.Window
	}
	if n < m.Layers {
		m.WindowLayers = n
	}
}

// biases adds optional biases: of attention, which has one more than queries, keys and values, and of the
// feed-forward layer.
func (c *hfConfig) biases(m *Model) {
	if c.Bias && m.MLA() {
		m.Extra += m.Hidden + m.Latent.QRank + m.Latent.KVRank + m.Latent.Rope
	} else if c.Bias && !m.Bias { // a family with biases in all products has them counted already
		m.QKVBias = true
		m.Extra += m.Hidden
	}
	if c.MLPBias {
		m.Extra += 2*m.FFN + m.Hidden
	}
}

// family sets what a family's configurations do not state.
func (c *hfConfig) family(m *Model) {
	yes := func(b *bool) bool { return b == nil || *b }
	switch c.Type {
	case "gptj": // parallel attention and feed-forward layer, after one norm
		m.Gated, m.LayerNorm, m.Norms = false, true, 1
		m.FFN = first(m.FFN, 4*m.Hidden)
		m.Extra, m.ExtraEnds = m.FFN+m.Hidden, m.Vocab
	case "gpt2", "gpt_neo", "gpt_neox", "opt", "bloom", "mpt":
		m.Gated, m.LayerNorm, m.Bias = false, true, c.Type != "mpt"
		m.FFN = first(m.FFN, 4*m.Hidden)
		if c.Type == "gpt2" || c.Type == "opt" || c.Type == "gpt_neo" {
			m.Positions = first(c.NPositions, c.Positions)
		}
		if c.Tied == nil {
			m.Tied = c.Type != "gpt_neox"
		}
	case "falcon":
		c.falcon(m)
	case "qwen2":
		m.QKVBias = true
	case "qwen2_moe":
		m.QKVBias = yes(c.QKVBias1)
	case "qwen3", "qwen3_moe":
		m.QKNorm = 2 * m.headDim()
	case "olmo2", "olmo3", "olmoe":
		m.QKNorm = m.queryWidth() + m.kvWidth()
	case "starcoder2":
		m.Gated, m.LayerNorm, m.Bias, m.Tied = false, true, yes(c.UseBias), yes(c.Tied)
	case "gemma", "gemma2", "gemma3_text":
		m.Tied, m.HeadDim = yes(c.Tied), first(m.HeadDim, 256)
		if c.Type != "gemma" {
			m.Norms = 4
		}
		if c.Type == "gemma3_text" {
			m.QKNorm = 2 * m.HeadDim
		}
	case "ernie4_5", "ernie4_5_moe":
		m.Tied, m.Bias = yes(c.Tied), c.UseBias != nil && *c.UseBias
	case "phi": // as gptj, with biases everywhere
		m.Gated, m.LayerNorm, m.Bias, m.Norms, m.ExtraEnds = false, true, true, 1, m.Vocab
		m.QKNorm = index(c.QKNorm2) * 4 * m.headDim()
	case "cohere", "cohere2":
		m.Tied, m.Norms, m.QKNorm = yes(c.Tied), 1, index(c.QKNorm1)*(m.queryWidth()+m.kvWidth())
	case "glm", "glm4", "glm4_moe":
		c.glm(m)
	case "stablelm":
		m.LayerNorm, m.QKVBias, m.QKNorm = true, c.QKVBias2, index(c.QKNorm2)*(m.queryWidth()+m.kvWidth())
		m.Norms = 2 - index(c.SideBySide)
	case "gpt_oss":
		c.gptOSS(m)
	case "smollm3":
		m.Tied = yes(c.Tied)
	case "olmo":
		m.FixedNorms = true
	case "bert", "roberta", "distilbert", "electra", "vit":
		c.encoder(m)
	case "mamba", "mamba2", "rwkv", "rwkv7":
		c.recurrent(m)
	}
}

// encoder sets up a model with bidirectional attention. Token types are rows of its table like positions.
func (c *hfConfig) encoder(m *Model) {
	m.Encoder, m.Gated, m.LayerNorm, m.Bias = true, false, true, true
	m.FFN = first(m.FFN, 4*m.Hidden)
	if c.Type == "bert" || c.Type == "roberta" {
		m.Tied, m.Positions = c.Tied == nil || *c.Tied, first(c.Positions, 512)
		// token types and a norm after the embedding, and before the logits a layer and a bias
		m.Transform, m.ExtraEnds = true, (first(c.TokenTypes, 2)+2)*m.Hidden+m.Vocab
		if c.Type == "roberta" {
			m.Padding = 2 // up to the padding token, by default 1
			if c.PadToken != nil {
				m.Padding = min(max(0, *c.PadToken+1), m.Positions-1)
			}
		}
		return
	}
	if c.Type == "distilbert" || c.Type == "electra" {
		c.smallEncoder(m)
		return
	}
	m.Positions, m.Vocab = 1, max(2, len(c.Labels))
	patches := 1
	for d := range c.Image {
		patches *= first(c.Image[d], 224) / first(c.Patch[d], 16)
	}
	m.Positions += patches
	// a product of patches in place of a token embedding, a class token, and the bias of the classes
	patch := first(c.Channels, 3) * first(c.Patch[0], 16) * first(c.Patch[1], 16)
	m.ExtraEnds = (patch+1+1-m.Vocab)*m.Hidden + m.Vocab
}

// pixels is a height and a width, which files write as one number if they are equal.
type pixels [2]int

// UnmarshalJSON reads one number or two.
func (p *pixels) UnmarshalJSON(text []byte) error {
	var one int
	if err := json.Unmarshal(text, &one); err == nil {
		*p = pixels{one, one}
		return nil
	}
	return json.Unmarshal(text, (*[2]int)(p))
}

// recurrent sets up a model whose layers carry a state along the sequence.
func (c *hfConfig) recurrent(m *Model) {
	if c.Type == "mamba2" {
		m.Heads, m.HeadDim, m.FFN = first(c.NumHeads, 128), first(c.HeadDim, 64), 0
		r := Recurrent{States: first(c.States, 128), Groups: first(c.Groups, 8)}
		r.In = 2*m.Heads*m.HeadDim + 2*r.Groups*r.States + m.Heads
		m.Recurrent = r
		inner, short := m.Heads*m.HeadDim, m.Heads*m.HeadDim+2*r.Groups*r.States
		m.Extra = 3*m.Heads + inner + short*(first(c.Kernel, 4)+index(c.ConvBias == nil || *c.ConvBias))
		if c.UseBias != nil && *c.UseBias {
			m.Extra += r.In + m.Hidden
		}
		return
	}
	if c.Type == "mamba" {
		c.mamba(m)
		return
	}
	if c.Type == "rwkv7" {
		c.rwkv7(m)
		return
	}
	width := first(c.AttnWidth, m.Hidden)
	m.Heads, m.HeadDim, m.FFN = width, 1, first(m.FFN, 4*m.Hidden)
	m.Gated, m.LayerNorm = false, true
	// Keys, values and their gate, and the gate of the feed-forward layer.
	m.Recurrent = Recurrent{In: 3*width + m.Hidden, States: 2, Groups: 1}
	m.Extra, m.ExtraEnds = 2*width+5*m.Hidden, 2*m.Hidden
}

// rwkv7 has a matrix of state per head; its low-rank layers count as columns with the same number of weights.
func (c *hfConfig) rwkv7(m *Model) {
	m.HeadDim = first(c.HeadDim, 64)
	m.Heads, m.FFN = max(1, m.Hidden/m.HeadDim), first(m.FFN, 4*m.Hidden)
	m.Gated, m.LayerNorm = false, true
	ranks := c.DecayRank + c.GateRank + c.RateRank + c.ValueRank
	m.Recurrent = Recurrent{In: 3*m.Hidden + 2*ranks, States: m.HeadDim, Groups: m.Heads}
	m.Extra, m.ExtraEnds = 15*m.Hidden, m.Hidden-2*c.ValueRank*m.Hidden // the first layer has no rank for values
}

// denseLayers returns the number of layers with a plain feed-forward layer.
func (c *hfConfig) denseLayers() int {
	n, last := 0, c.Layers-1
	if c.MoEEnd != nil && *c.MoEEnd >= 0 {
		last = *c.MoEEnd
	}
	step := max(1, c.MoEStep, c.SparseStep)
	for i := range c.Layers {
		if i < max(c.Dense, c.MoEStart) || i > last || (i+1)%step != 0 || slices.Contains(c.DenseOnly, i) {
			n++
		}
	}
	return n
}

// first returns the first number that is not 0.
func first(ns ...int) int {
	for _, n := range ns {
		if n != 0 {
			return n
		}
	}
	return 0
}
