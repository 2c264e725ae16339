package models

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// buildMamba2 builds mamba2: state-space layers without attention.
func buildMamba2(_ *family, c Config, in *nn.Init) (*decoder, error) {
	return buildRecurrent(c, in, func(in *nn.Init, act nn.Activation) nn.Attender {
		return mamba2Mixer(c, in, act)
	})
}

// buildRecurrent makes the layers that both versions of mamba have around their mixers.
func buildRecurrent(c Config, in *nn.Init, mix func(*nn.Init, nn.Activation) nn.Attender) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base := in.At("backbone")
	m := &decoder{stem: stem{tokens: nn.NewEmbedding(base.At("embeddings"), c.Vocab, c.Hidden)}}
	for i := range c.Layers {
		layer := base.At("layers").Index(i)
		norm := nn.NewRMSNorm(layer.At("norm"), c.Hidden, c.NormEps)
		m.blocks = append(m.blocks, recurrent{norm: norm, mixer: mix(layer.At("mixer"), act)})
	}
	m.norm = nn.NewRMSNorm(base.At("norm_f"), c.Hidden, c.NormEps)
	if !c.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	return m, nil
}

func mamba2Mixer(c Config, in *nn.Init, act nn.Activation) *nn.Mamba2 {
	r := c.Recurrence
	config := nn.Mamba2Config{
		Hidden: c.Hidden, Heads: c.Heads, Dim: c.HeadDim, States: r.States, Groups: r.Groups,
		Kernel: r.Kernel, Chunk: r.Chunk,
		Eps: c.NormEps, MinStep: r.MinStep, Act: act,
	}
	if !math.IsInf(r.MaxStep, 1) {
		config.MaxStep = r.MaxStep
	}
	m := nn.NewMamba2(in, config)
	if r.ConvBias {
		m.ConvBias = in.At("conv1d").Param("bias", array.Shape{m.Conv.Type.Shape[0]}, nn.Constant(0))
	}
	if r.Bias {
		m.In.Bias = in.At("in_proj").Param("bias", array.Shape{m.In.Weight.Type.Shape[0]}, nn.Constant(0))
		m.Out.Bias = in.At("out_proj").Param("bias", array.Shape{c.Hidden}, nn.Constant(0))
	}
	return m
}

// recurrent is one residual layer without attention.
type recurrent struct {
	norm  layer
	mixer nn.Attender
}

func (b recurrent) forward(name string, x *op.Tensor, c *nn.KVCache) *op.Tensor {
	x = op.Mark(x, name)
	return op.Add(x, b.mixer.Forward(b.norm.Forward(x), c))
}

func (b recurrent) over(s nn.Sequence) block {
	b.mixer = b.mixer.Over(s)
	return b
}

func (b recurrent) shared(Layout) block                   { return b }
func (b recurrent) cache(batch, limit int) [2]array.Shape { return b.mixer.Cache(batch, limit) }
