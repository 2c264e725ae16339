package plan

import (
	"fmt"

	"github.com/galley-ml/galley/internal/strict"
)

// Model is the shape of a transformer.
type Model struct {
	Name    string `yaml:"name" json:"name"`
	Layers  int    `yaml:"layers" json:"layers"`
	Hidden  int    `yaml:"hidden" json:"hidden"`
	Heads   int    `yaml:"heads" json:"heads"`
	KVHeads int    `yaml:"kv_heads,omitempty" json:"kv_heads,omitempty"` // 0 means Heads
	HeadDim int    `yaml:"head_dim,omitempty" json:"head_dim,omitempty"` // 0 means Hidden/Heads
	FFN     int    `yaml:"ffn" json:"ffn"`
	Vocab   int    `yaml:"vocab" json:"vocab"`
	// Positions is the number of rows of a learned position table; 0 for rotary positions or none.
	Positions int `yaml:"positions,omitempty" json:"positions,omitempty"`
	// Padding is the number of these rows that are for padding alone: RoBERTa counts tokens after them.
	Padding int `yaml:"padding,omitempty" json:"padding,omitempty"`
	// Tied means that the output layer shares the embedding table.
	Tied bool `yaml:"tied,omitempty" json:"tied,omitempty"`
	// Gated means SwiGLU: three matrices instead of two.
	Gated bool `yaml:"gated,omitempty" json:"gated,omitempty"`
	// LayerNorm has a mean and a bias; otherwise norms are RMSNorm.
	LayerNorm bool `yaml:"layer_norm,omitempty" json:"layer_norm,omitempty"`
	// FixedNorms means that norms of the residual stream have no parameters.
	FixedNorms bool `yaml:"fixed_norms,omitempty" json:"fixed_norms,omitempty"`
	// Bias means that all products have a bias, QKVBias that only those of queries, keys and values do.
	Bias    bool `yaml:"bias,omitempty" json:"bias,omitempty"`
	QKVBias bool `yaml:"qkv_bias,omitempty" json:"qkv_bias,omitempty"`
	// Norms is the number of norms of the residual stream per layer; 0 means one for each part that adds to it.
	// QKNorm is the number of weights of query and key norms; 0 means none.
	Norms  int `yaml:"norms,omitempty" json:"norms,omitempty"`
	QKNorm int `yaml:"qk_norm,omitempty" json:"qk_norm,omitempty"`
	// Window is the number of keys that a query attends to; 0 means all before it. WindowLayers is the number of
	// layers that have it, spread over the model; 0 means all.
	Window       int `yaml:"window,omitempty" json:"window,omitempty"`
	WindowLayers int `yaml:"window_layers,omitempty" json:"window_layers,omitempty"`
	// Transform means that a product of the hidden size precedes the one with the vocabulary, as in BERT.
	Transform bool `yaml:"transform,omitempty" json:"transform,omitempty"`
	// Extra is the number of further parameters of a layer, which take memory but hardly any time: biases that
	// the fields above do not cover, short convolutions, factors of channels. ExtraEnds is that before and after
	// the layers, minus what the first layer lacks.
	Extra     int `yaml:"extra,omitempty" json:"extra,omitempty"`
	ExtraEnds int `yaml:"extra_ends,omitempty" json:"extra_ends,omitempty"`
	// Experts, if there are any, replace the feed-forward layer.
	Experts Experts `yaml:"experts,omitempty" json:"experts,omitzero"`
	// Latent, if it has ranks, is multi-head latent attention.
	Latent Latent `yaml:"latent,omitempty" json:"latent,omitzero"`
	// Encoder means that queries attend to all keys.
	Encoder bool `yaml:"encoder,omitempty" json:"encoder,omitempty"`
	// Recurrent, if it has columns, is a scan along the sequence in place of attention.
	Recurrent Recurrent `yaml:"recurrent,omitempty" json:"recurrent,omitzero"`
}

// Recurrent is a state-space layer: Heads of HeadDim elements, each with States numbers of state.
type Recurrent struct {
	// In is the number of columns of the product that computes all of the layer's inputs.
	In     int `yaml:"in,omitempty" json:"in,omitempty"`
	States int `yaml:"states,omitempty" json:"states,omitempty"`
	// Groups is the number of head groups that share the matrices which write and read their states.
	Groups int `yaml:"groups,omitempty" json:"groups,omitempty"`
}

// Experts is a mixture of experts.
type Experts struct {
	Count int `yaml:"count,omitempty" json:"count,omitempty"`
	TopK  int `yaml:"top_k,omitempty" json:"top_k,omitempty"`
	// FFN is the width of one expert, Shared the total width of the shared experts, which process every token.
	FFN    int `yaml:"ffn,omitempty" json:"ffn,omitempty"`
	Shared int `yaml:"shared,omitempty" json:"shared,omitempty"`
	// Dense is the number of layers, the first ones, with a plain feed-forward layer.
	Dense int `yaml:"dense,omitempty" json:"dense,omitempty"`
	// Bias means that the router has a bias for each expert, SharedGate that a gate scales the shared experts.
	Bias       bool `yaml:"bias,omitempty" json:"bias,omitempty"`
	SharedGate bool `yaml:"shared_gate,omitempty" json:"shared_gate,omitempty"`
}

// Latent is multi-head latent attention: queries, keys and values from low-rank projections.
type Latent struct {
	QRank  int `yaml:"q_rank,omitempty" json:"q_rank,omitempty"` // 0 is a full projection of queries
	KVRank int `yaml:"kv_rank,omitempty" json:"kv_rank,omitempty"`
	Nope   int `yaml:"nope,omitempty" json:"nope,omitempty"`
	Rope   int `yaml:"rope,omitempty" json:"rope,omitempty"`
	V      int `yaml:"v,omitempty" json:"v,omitempty"`
}

// MoE reports whether the model has experts.
func (m *Model) MoE() bool { return m.Experts.Count > 0 }

// MLA reports whether attention is latent.
func (m *Model) MLA() bool { return m.Latent.KVRank > 0 }

// Scans reports whether layers are recurrent.
func (m *Model) Scans() bool { return m.Recurrent.In > 0 }

// blocks returns the number of parts of a layer that add to the residual stream.
func (m *Model) blocks() float64 {
	if m.Scans() && m.FFN == 0 {
		return 1
	}
	return 2
}

// norms returns the number of norms of the residual stream per layer.
func (m *Model) norms() float64 {
	if m.Norms > 0 {
		return float64(m.Norms)
	}
	return m.blocks()
}

// normParams returns the number of parameters of a norm of the residual stream.
func (m *Model) normParams() float64 {
	switch {
	case m.FixedNorms:
		return 0
	case m.LayerNorm:
		return 2 * float64(m.Hidden)
	}
	return float64(m.Hidden)
}

// windowed returns the fraction of the layers with a sliding window.
func (m *Model) windowed() float64 {
	switch {
	case m.Window == 0:
		return 0
	case m.WindowLayers == 0:
		return 1
	}
	return float64(m.WindowLayers) / float64(m.Layers)
}

// Check returns an error if the shape is impossible.
func (m *Model) Check() error {
	if err := strict.CheckName("model", m.Name); err != nil {
		return err
	}
	if err := m.checkSizes(); err != nil {
		return fmt.Errorf("model %s: %w", m.Name, err)
	}
	switch {
	case m.Positions == 0 && !m.MLA() && !m.Scans() && m.headDim()%2 != 0:
		return fmt.Errorf("model %s: head_dim: got %d, want an even number for rotary positions", m.Name,
			m.headDim())
	case m.MLA() && (m.Latent.Nope < 1 || m.Latent.Rope < 2 || m.Latent.Rope%2 != 0 || m.Latent.V < 1):
		return fmt.Errorf("model %s: latent attention: got heads of %d, %d turned and values of %d: want at "+
			"least 1, an even number and 1",
			m.Name, m.Latent.Nope, m.Latent.Rope, m.Latent.V)
	case m.FFN < 1 && !(m.MoE() && m.Experts.Dense == 0) && !m.Scans():
		return fmt.Errorf("model %s: ffn: got %d, want at least 1", m.Name, m.FFN)
	case m.HeadDim == 0 && m.Hidden%m.Heads != 0 && !m.MLA():
		return fmt.Errorf("model %s: hidden %d is not a multiple of heads %d: give head_dim", m.Name, m.Hidden,
			m.Heads)
	case m.Scans() && (m.Recurrent.States < 1 || m.Recurrent.Groups < 1 || m.Heads%m.Recurrent.Groups != 0):
		return fmt.Errorf("model %s: recurrent: got %d states, %d groups of %d heads: want 1 or more, and equal "+
			"groups",
			m.Name, m.Recurrent.States, m.Recurrent.Groups, m.Heads)
	case m.KVHeads < 0 || m.KVHeads > m.Heads || m.Heads%m.kvHeads() != 0:
		return fmt.Errorf("model %s: kv_heads: got %d, want a divisor of heads %d", m.Name, m.KVHeads, m.Heads)
	case m.MoE() &&
		(m.Experts.TopK < 1 || m.Experts.TopK > m.Experts.Count || m.Experts.FFN < 1 || m.Experts.Dense < 0 ||
			m.Experts.Dense > m.Layers):
		return fmt.Errorf("model %s: experts: got %d, top_k %d, ffn %d, dense layers %d: want top_k of 1 to the "+
			"number of experts and a width",
			m.Name, m.Experts.Count, m.Experts.TopK, m.Experts.FFN, m.Experts.Dense)
	}
	return nil
}

// Plausible upper bounds of sizes: a larger number is an error, and a price would take forever or overflow.
const (
	maxLayers = 1 << 14
	maxSize   = 1 << 26
	maxVocab  = 1 << 30
	maxBatch  = 1 << 24
)

// checkSizes returns an error for a number that is out of its range.
func (m *Model) checkSizes() error {
	e, l := &m.Experts, &m.Latent
	for _, d := range []struct {
		name         string
		n, low, high int
	}{
		{"layers", m.Layers, 1, maxLayers}, {"hidden", m.Hidden, 1, maxSize}, {"heads", m.Heads, 1,
			maxSize}, {"vocab", m.Vocab, 1, maxVocab},
		{"kv_heads", m.KVHeads, 0, maxSize}, {"head_dim", m.HeadDim, 0, maxSize}, {"ffn", m.FFN, 0,
			maxSize}, {"positions", m.Positions, 0, maxVocab},
		{"padding", m.Padding, 0, max(0, m.Positions-1)},
		{"window", m.Window, 0, maxVocab}, {"window_layers", m.WindowLayers, 0, max(0, m.Layers)},
		{"norms", m.Norms, 0, 16}, {"qk_norm", m.QKNorm, 0, maxSize}, {"extra", m.Extra, 0, maxVocab},
		{"extra_ends", m.ExtraEnds, -maxVocab, maxVocab}, {"experts", e.Count, 0, 1 << 16},
		{"experts' top_k", e.TopK, 0, 1 << 16},
		{"experts' ffn", e.FFN, 0, maxSize}, {"experts' shared", e.Shared, 0, maxSize}, {"experts' dense", e.Dense,
			0, maxLayers},
		{"recurrent in", m.Recurrent.In, 0, maxSize}, {"recurrent states", m.Recurrent.States, 0, maxSize},
		{"recurrent groups", m.Recurrent.Groups, 0, maxSize}, {"latent q_rank", l.QRank, 0,
			maxSize}, {"latent kv_rank", l.KVRank, 0, maxSize}, {"latent nope", l.Nope, 0, maxSize},
		{"latent rope", l.Rope, 0, maxSize}, {"latent v", l.V, 0, maxSize},
	} {
		if d.n < d.low || d.n > d.high {
			return fmt.Errorf("%s: got %d, want %d to %d", d.name, d.n, d.low, d.high)
		}
	}
	if width := float64(m.Heads) * float64(m.headDim()+m.valueDim()); width > maxSize*64 {
		return fmt.Errorf("heads: %d of %d are wider than any model", m.Heads, m.headDim())
	}
	return nil
}

func (m *Model) kvHeads() int {
	if m.KVHeads == 0 {
		return m.Heads
	}
	return m.KVHeads
}

func (m *Model) headDim() int {
	switch {
	case m.MLA():
		return m.Latent.Nope + m.Latent.Rope
	case m.HeadDim > 0:
		return m.HeadDim
	}
	return max(1, m.Hidden/m.Heads)
}

// valueDim returns the size of a head's values.
func (m *Model) valueDim() int {
	if m.MLA() {
		return m.Latent.V
	}
	return m.headDim()
}

// queryWidth and kvWidth return the total sizes of all heads: of queries, and of keys or values.
func (m *Model) queryWidth() int { return m.Heads * m.headDim() }
func (m *Model) kvWidth() int {
	if m.MLA() {
		return m.Heads * (m.Latent.Nope + m.Latent.Rope)
	}
	if m.Scans() {
		return m.Recurrent.Groups * m.Recurrent.States
	}
	return m.kvHeads() * m.headDim()
}

// denseLayers returns the number of layers without experts.
func (m *Model) denseLayers() int {
	if !m.MoE() {
		return m.Layers
	}
	return m.Experts.Dense
}

// layerParams holds the number of parameters of a layer by how they are split.
type layerParams struct {
	split  float64 // over tensor parallelism
	whole  float64 // on every device of a tensor-parallel group
	expert float64 // over expert parallelism, all experts together
}

func (p layerParams) total() float64 { return p.split + p.whole + p.expert }

// layer counts the parameters of a layer with or without experts.
func (m *Model) layer(moe bool) layerParams {
	h := float64(m.Hidden)
	p := m.attention()
	norms := m.norms() * m.normParams()
	p.whole += norms + float64(m.QKNorm+m.Extra)
	mats := 2.0
	if m.Gated {
		mats = 3
	}
	if !moe {
		p.split += mats * h * float64(m.FFN)
		if m.Bias {
			p.split += float64(m.FFN) * (mats - 1)
			p.whole += h
		}
		return p
	}
	e := &m.Experts
	p.whole += h * float64(e.Count)
	if e.Bias {
		p.whole += float64(e.Count)
	}
	if e.SharedGate {
		p.whole += h
	}
	p.expert = mats * h * float64(e.FFN) * float64(e.Count)
	p.split += mats * h * float64(e.Shared)
	return p
}

func (m *Model) attention() layerParams {
	h, hq, hkv := float64(m.Hidden), float64(m.queryWidth()), float64(m.kvWidth())
	if l := &m.Latent; m.MLA() {
		a := float64(m.Heads)
		nope, rope, v, q, kv := float64(l.Nope), float64(l.Rope), float64(l.V), float64(l.QRank), float64(l.KVRank)
		p := layerParams{split: kv*a*(nope+v) + a*v*h, whole: h*kv + h*rope + kv}
		if q > 0 {
			p.split += q * a * (nope + rope)
			p.whole += h*q + q
		} else {
			p.split += h * hq
		}
		return p
	}
	if m.Scans() {
		return layerParams{split: h*float64(m.Recurrent.In) + hq*h}
	}
	p := layerParams{split: h*hq + 2*h*hkv + hq*h}
	if m.Bias || m.QKVBias {
		p.split += hq + 2*hkv
	}
	if m.Bias {
		p.whole += h
	}
	return p
}

// ends counts the parameters of the embedding, the output layer and the last norm.
func (m *Model) ends() (embedding, head, norm float64) {
	h := float64(m.Hidden)
	embedding = float64(m.Vocab) * h
	if !m.Tied {
		head = embedding
	}
	norm = m.normParams() + float64(m.ExtraEnds)
	if m.Transform {
		norm += h*h + h
	}
	return embedding + float64(m.Positions)*h, head, norm
}

// Params returns the number of parameters of the model.
func (m *Model) Params() float64 {
	e, h, n := m.ends()
	dense := float64(m.denseLayers())
	total := e + h + n + dense*m.layer(false).total()
	if m.MoE() {
		total += (float64(m.Layers) - dense) * m.layer(true).total()
	}
	return total
}

// FlopsPerToken returns what papers count for MFU: three times the products of a forward pass, including
// attention to all keys regardless of the mask. It is a convention for reports, not the price of anything.
func (m *Model) FlopsPerToken(seq int) float64 {
	h := float64(m.Hidden)
	attn := m.attention().split
	if m.MLA() {
		attn += h * float64(m.Latent.QRank+m.Latent.KVRank+m.Latent.Rope)
	} else if m.Bias || m.QKVBias {
		attn -= float64(m.queryWidth() + 2*m.kvWidth())
	}
	core := float64(seq) * float64(m.Heads) * float64(m.headDim()+m.valueDim()) // multiply-adds
	if m.Scans() {
		core = 2.5 * float64(m.queryWidth()*m.Recurrent.States)
	}
	mats := 2.0
	if m.Gated {
		mats = 3
	}
	dense := float64(m.denseLayers())
	sum := float64(m.Layers)*(attn+core) + dense*mats*h*float64(m.FFN) + h*float64(m.Vocab)
	if m.Transform {
		sum += h * h
	}
	if e := &m.Experts; m.MoE() {
		sum += (float64(m.Layers) - dense) * h * (mats*float64(e.FFN*e.TopK+e.Shared) + float64(e.Count))
	}
	return 3 * 2 * sum
}

// widest returns the number of rows of Hidden of the largest dense tensor of a layer.
func (m *Model) widest() int { return max(m.FFN, m.queryWidth()+2*m.kvWidth()) }

// MostTokens returns the longest sequence that the learned positions allow; 0 means any length.
func (m *Model) MostTokens() int { return max(0, m.Positions-m.Padding) }
