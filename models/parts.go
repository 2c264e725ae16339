package models

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Parts exposes the layers of a model to programs that compute it without its ops, such as an inference
// engine with a paged key-value cache.
type Parts struct {
	Config Config
	Tokens *nn.Embedding
	// Scale multiplies the token embeddings.
	Scale float64
	// Positions are learned; nil with rotary positions.
	Positions *nn.Embedding
	Layers    []LayerParts
	// Norm follows the last layer; nil for none.
	Norm Norm
	// Head is nil if it is tied to the embedding table. HeadBias may be nil.
	Head     *nn.Linear
	HeadBias *nn.Param
	// LogitScale multiplies the logits, before Cap applies.
	LogitScale float64
	// Cap limits the logits x to cap·tanh(x/cap); 0 means no limit.
	Cap float64
	// Limit is the longest sequence for which decoding token by token equals processing it at once; 0 means no
	// limit.
	Limit int
}

// LayerParts is one residual layer of a transformer. Norms may be nil.
type LayerParts struct {
	AttentionNorm, AttentionPost Norm
	Attention                    nn.Attender
	MLPNorm, MLPPost             Norm
	// MLP is a *nn.GatedMLP, *nn.FusedGatedMLP, *nn.MLP or *nn.MoE.
	MLP any
	// Parallel means that the MLP reads the layer's input, normalised by AttentionNorm if it has no norm of its
	// own.
	Parallel bool
	// Scale multiplies the outputs of attention and MLP.
	Scale float64
}

// Norm is a *nn.RMSNorm or a *nn.LayerNorm; a nil weight means ones, a nil bias zeros.
type Norm interface {
	Forward(x *op.Tensor) *op.Tensor
}

// PartsOf returns the parts of a model. It refuses encoders, and models whose layers keep another state than
// keys and values.
func PartsOf(m Model) (Parts, error) {
	d, ok := m.(*decoder)
	if !ok {
		return Parts{}, fmt.Errorf("models: a %T: want a model of this package", m)
	}
	c := d.config
	f, err := familyOf(c.Family)
	if err != nil {
		return Parts{}, err
	}
	switch {
	case f.encoder || f.images || c.Task != Predict:
		return Parts{}, fmt.Errorf("models: %s sees whole sequences: it continues none", c.Family)
	case f.recurrent:
		return Parts{}, fmt.Errorf("models: %s keeps a state in place of keys and values: it cannot be served "+
			"yet: "+
			"want a transformer", c.Family)
	}
	p := Parts{Config: c, Tokens: d.stem.tokens, Scale: 1, Positions: d.stem.positions, Head: d.head.linear,
		HeadBias: d.head.bias, LogitScale: 1, Cap: d.head.cap, Limit: c.servedUpTo()}
	if d.stem.scale != 0 {
		p.Scale = d.stem.scale
	}
	if d.head.scale != 0 {
		p.LogitScale = d.head.scale
	}
	if d.stem.types != nil || d.stem.norm != nil || d.head.before != nil {
		return Parts{}, fmt.Errorf("models: %s has layers around its blocks that cannot be served yet", c.Family)
	}
	if p.Norm, err = normOf(d.norm); err != nil {
		return Parts{}, fmt.Errorf("models: %s: %w", c.Family, err)
	}
	for i, b := range d.blocks {
		l, err := layerParts(b)
		if err != nil {
			return Parts{}, fmt.Errorf("models: %s: layer %d: %w", c.Family, i, err)
		}
		p.Layers = append(p.Layers, l)
	}
	return p, nil
}

// servedUpTo returns the longest sequence for which the keys of tokens do not depend on the length; 0 means
// no limit.
func (c Config) servedUpTo() int {
	limit := c.Limit()
	for _, r := range []Rope{c.Rope, c.RopeLocal} {
		if n := r.fixedUpTo(); n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	return limit
}

func layerParts(b block) (LayerParts, error) {
	if p, ok := b.(parallel); ok {
		if _, ok := p.post.(*nn.Dropout); p.post != nil && !ok {
			return LayerParts{}, fmt.Errorf("a %T cannot be served yet", p.post)
		}
		l, err := layerParts(residual{p.norm, p.attention, p.attentionPost, p.mlpNorm, p.mlp, p.mlpPost})
		l.Parallel = true
		return l, err
	}
	r, ok := b.(residual)
	if !ok {
		return LayerParts{}, fmt.Errorf("a %T cannot be served yet: want attention and an MLP", b)
	}
	if a, ok := r.attention.(*nn.Attention); ok && a.Heads.Sinks != nil {
		return LayerParts{}, errors.New("attention with sinks cannot be served yet")
	}
	if e, ok := r.mlp.(*nn.MoE); ok && e.GateUpBias != nil {
		return LayerParts{}, errors.New("experts with biases cannot be served yet")
	}
	l := LayerParts{Attention: r.attention, MLP: r.mlp, Scale: 1}
	if by, ok := r.attentionPost.(multiplied); ok && r.mlpPost == layer(by) {
		l.Scale, r.attentionPost, r.mlpPost = float64(by), nil, nil
	}
	for _, n := range []struct {
		to   *Norm
		from layer
	}{{&l.AttentionNorm, r.attentionNorm}, {&l.AttentionPost, r.attentionPost}, {&l.MLPNorm, r.mlpNorm},
		{&l.MLPPost, r.mlpPost}} {
		norm, err := normOf(n.from)
		if err != nil {
			return LayerParts{}, err
		}
		*n.to = norm
	}
	return l, nil
}

// normOf returns a layer as a norm; dropout is ignored, because it does nothing outside of training.
func normOf(l layer) (Norm, error) {
	switch l := l.(type) {
	case nil, *nn.Dropout:
		return nil, nil
	case *nn.RMSNorm:
		return l, nil
	case *nn.LayerNorm:
		return l, nil
	case *scaleNorm:
		return &nn.LayerNorm{Weight: l.weight, Eps: l.eps}, nil
	}
	return nil, fmt.Errorf("a %T cannot be served yet", l)
}
