package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
)

// mambaChunk is the number of positions that are computed at once; config.json does not specify it.
const mambaChunk = 64

// buildMamba builds mamba, the first version: layers like mamba2's, with a decay rate for each state.
func buildMamba(_ *family, c Config, in *nn.Init) (*decoder, error) {
	return buildRecurrent(c, in, func(in *nn.Init, act nn.Activation) nn.Attender {
		return mambaMixer(c, in, act)
	})
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
