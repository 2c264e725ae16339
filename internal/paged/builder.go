package paged

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// builder packs parts; it keeps the first error.
type builder struct {
	Config
	config models.Config
	rank   int // whose part it packs, of TP devices
	bytes  int
	err    error
	// products holds those that adapters may update; plain ones are not among them.
	products []projection
	plain    bool
}

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *builder) model(p models.Parts) *Model {
	m := &Model{config: p.Config, limit: p.Limit, scale: float32(p.Scale),
		logitScale: float32(p.LogitScale), cap: float32(p.Cap)}
	vocab := b.share(p.Config.Vocab)
	m.vocab = vocab
	m.tokens = b.kept(piece{weight: p.Tokens.Weight, rows: vocab}).weight
	if p.Positions != nil {
		m.positions = b.kept(whole(p.Positions.Weight)).weight
	}
	for _, l := range p.Layers {
		m.layers = append(m.layers, b.layer(l))
	}
	m.norm = b.norm(p.Norm)
	m.head = projection{weight: m.tokens, bias: b.biases(piece{bias: p.HeadBias, rows: vocab})}
	if p.Head != nil {
		m.head = b.kept(piece{weight: p.Head.Weight, bias: p.Head.Bias, rows: vocab})
	}
	m.bytes, m.rank, m.products, m.kv = b.bytes, b.rank, b.products, b.KV
	m.watched = b.Watch != nil
	return m
}

func (b *builder) layer(l models.LayerParts) layer {
	return layer{
		attentionNorm: b.norm(l.AttentionNorm), attentionPost: b.norm(l.AttentionPost),
		attention: b.attention(l.Attention),
		mlpNorm:   b.norm(l.MLPNorm), mlpPost: b.norm(l.MLPPost),
		mlp:      b.mlp(l.MLP),
		parallel: l.Parallel,
		scale:    float32(l.Scale),
	}
}

// read returns a parameter's values, empty after an error.
func (b *builder) read(p *nn.Param) (array.Array, bool) {
	if b.err != nil {
		return array.Array{}, false
	}
	a, err := b.Read(p)
	if err != nil {
		b.fail(err)
		return a, false
	}
	return a, true
}

// product packs pieces with the same number of columns, one below the other, as one product.
func (b *builder) product(ps ...piece) projection {
	out := projection{weight: b.stored(ps), bias: b.biases(ps...), watch: b.watching(0, ps...)}
	if out.weight != nil {
		return b.listed(out, ps)
	}
	var all []packed.Source
	for _, p := range ps {
		a, ok := b.read(p.weight)
		if !ok {
			return projection{}
		}
		s := packed.Rows(a)
		if p.dense {
			s = packed.Columns(a)
		}
		all = append(all, s.Cut(p.rows.lo, p.rows.hi))
	}
	out.weight = b.pack(packed.Join(all...))
	return b.listed(out, ps)
}

// listed records a product that an adapter may update.
func (b *builder) listed(p projection, ps []piece) projection {
	if b.plain || b.err != nil {
		return p
	}
	p.pieces = ps
	b.products = append(b.products, p)
	return p
}

// biases returns the concatenated biases of pieces; nil if none has one.
func (b *builder) biases(ps ...piece) []float32 {
	var all []float32
	some := false
	for _, p := range ps {
		if p.bias == nil {
			all = append(all, make([]float32, p.rows.len())...)
			continue
		}
		some = true
		if v := b.vector(p.bias); v != nil {
			all = append(all, v[p.rows.lo:p.rows.hi]...)
		}
	}
	if !some {
		return nil
	}
	return all
}

// kept packs an embedding table or a router, which is not quantized.
func (b *builder) kept(p piece) projection {
	plain := *b
	plain.Weights, plain.bytes, plain.Watch, plain.plain = b.Weights.Kept(), 0, nil, true
	w := plain.product(p)
	b.fail(plain.err)
	b.bytes += plain.bytes
	return w
}

// stored packs pieces that are stored quantized; nil if one is not, or another format is requested.
func (b *builder) stored(ps []piece) packed.Weight {
	var all []quant.Matrix
	for _, p := range ps {
		if p.dense {
			return nil
		}
		m, ok := b.grouped(p.weight)
		if !ok {
			return nil
		}
		all = append(all, m.Rows(p.rows.lo, p.rows.hi))
	}
	return b.packGrouped(all...)
}

func (b *builder) grouped(p *nn.Param) (m quant.Matrix, ok bool) {
	if b.err != nil || b.Grouped == nil || b.Weights != packed.Auto {
		return m, false
	}
	m, ok, err := b.Grouped(p)
	b.fail(err)
	return m, ok && err == nil
}

func (b *builder) packGrouped(ms ...quant.Matrix) packed.Weight { return b.took(packed.Grouped(ms...)) }

func (b *builder) pack(s packed.Source) packed.Weight { return b.took(packed.Pack(b.Weights, s)) }

// took counts the bytes of a weight.
func (b *builder) took(w packed.Weight, err error) packed.Weight {
	if err != nil {
		b.fail(err)
		return nil
	}
	b.bytes += w.Bytes()
	return w
}

// vector returns a parameter as float32; nil stays nil.
func (b *builder) vector(p *nn.Param) []float32 {
	if p == nil {
		return nil
	}
	a, ok := b.read(p)
	if !ok {
		return nil
	}
	x := make([]float32, a.Len())
	if !packed.Floats(x, a, 0) {
		for i := range x {
			x[i] = float32(a.At(i))
		}
	}
	return x
}
