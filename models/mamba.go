package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
)

// mambaChunk is how many positions are computed at once, which files do not say.
const mambaChunk = 64

// buildMamba makes mamba, the first version: layers like mamba2's, whose every state decays at its own rate.
func buildMamba(_ *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base := in.At("backbone")
	m := &decoder{stem: stem{tokens: nn.NewEmbedding(base.At("embeddings"), c.Vocab, c.Hidden)}}
	for i := range c.Layers {
		layer := base.At("layers").Index(i)
		norm := nn.NewRMSNorm(layer.At("norm"), c.Hidden, c.NormEps)
		m.blocks = append(m.blocks, recurrent{norm: norm, mixer: mambaMixer(c, layer.At("mixer"), act)})
	}
	m.norm = nn.NewRMSNorm(base.At("norm_f"), c.Hidden, c.NormEps)
	if !c.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	return m, nil
}

func mambaMixer(c Config, in *nn.Init, act nn.Activation) *nn.Mamba {
	r := c.Recurrence
	m := nn.NewMamba(in, nn.MambaConfig{Hidden: c.Hidden, Width: c.Intermediate, States: r.States,
		StepRank: r.StepRank, Kernel: r.Kernel, Chunk: r.Chunk, Act: act})
	if r.ConvBias {
		m.ConvBias = in.At("conv1d").Param("bias", array.Shape{c.Intermediate}, nn.Constant(0))
	}
	if r.Bias {
		m.In.Bias = in.At("in_proj").Param("bias", array.Shape{2 * c.Intermediate}, nn.Constant(0))
		m.Out.Bias = in.At("out_proj").Param("bias", array.Shape{c.Hidden}, nn.Constant(0))
	}
	return m
}
