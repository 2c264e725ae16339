package plan

// falcon has a fused matrix for queries, keys and values, and blocks that are parallel, with one norm or two,
// or sequential.
func (c *hfConfig) falcon(m *Model) {
	m.Gated, m.LayerNorm, m.Bias, m.Tied = false, true, c.AnyBias, c.Tied == nil || *c.Tied
	m.FFN = first(m.FFN, 4*m.Hidden)
	one := c.NormCount != nil && *c.NormCount == 1
	switch {
	case c.NewBlocks && !one, !c.NewBlocks && c.Parallel != nil && !*c.Parallel:
		m.Norms = 2
	default:
		m.Norms = 1
	}
}

// glm has biases of queries, keys and values only.
func (c *hfConfig) glm(m *Model) {
	m.QKVBias, c.Bias = c.Bias, false
	switch {
	case c.Type == "glm4":
		m.Norms = 4
	case c.QKNorm1:
		m.QKNorm = 2 * m.headDim()
	}
}

// gptOSS has attention sinks, and biases of the router and of experts, which are counted with the layer.
func (c *hfConfig) gptOSS(m *Model) {
	m.Extra = m.Heads + c.Experts1*(1+2*m.FFN+m.Hidden)
}

// smallEncoder sets up distilbert, which has no token types, or electra, whose token embeddings are smaller
// than the hidden size.
func (c *hfConfig) smallEncoder(m *Model) {
	m.Tied, m.Positions = c.Tied == nil || *c.Tied, first(c.Positions, 512)
	if c.Type == "distilbert" {
		m.Transform, m.ExtraEnds = true, 2*m.Hidden+m.Vocab
		return
	}
	width, h := first(c.TokenWidth, 128), m.Hidden
	tables := m.Vocab + m.Positions
	m.ExtraEnds = tables*(width-h) + (first(c.TokenTypes, 2)+2)*width - 2*h // no norm after the last layer
	m.ExtraEnds += h*width + width + 2*width + m.Vocab                      // before the logits
	if width != h {
		m.ExtraEnds += width*h + h
	}
	if !m.Tied {
		m.ExtraEnds += m.Vocab * (width - h)
	}
}

// mamba sets up its first version: the selection parameters are computed from the convolved input, so they
// count with the layer.
func (c *hfConfig) mamba(m *Model) {
	inner, states := first(c.FFN, 2*m.Hidden), first(c.States, 16)
	rank := first(c.StepRank, (m.Hidden+15)/16)
	m.Heads, m.HeadDim, m.KVHeads, m.FFN = inner, 1, inner, 0
	m.Recurrent = Recurrent{In: 2 * inner, States: states, Groups: 1}
	m.Tied = c.Tied == nil || *c.Tied
	m.Extra = inner*(rank+2*states) + inner*(rank+1) + inner*(states+1)
	m.Extra += inner * (first(c.Kernel, 4) + index(c.ConvBias == nil || *c.ConvBias))
	if c.UseBias != nil && *c.UseBias {
		m.Extra += 2*inner + m.Hidden
	}
}
