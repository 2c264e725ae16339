package paged

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// lanes is what rows of a cache are padded to.
const lanes = kernel.OrderedLanes

// Config says how a model is kept.
type Config struct {
	// Weights is the format of matrices; the zero value keeps what the model has.
	Weights packed.Format
	// Read gives a parameter's values; nil takes those of the model, which must be eager.
	Read func(p *nn.Param) (array.Array, error)
	// Grouped gives matrices that are stored as integers, and nothing for others; nil is for models that have
	// none. It is asked where Weights keeps what the model has.
	Grouped func(p *nn.Param) (m quant.Matrix, ok bool, err error)
	// Watch, where not nil, sees the inputs of every matrix of the layers while steps run: of part of a
	// parameter, an expert's number or 0.
	Watch func(p *nn.Param, part int, x []float32, rows int)
	// Threads is how many compute; 0 is all.
	Threads int
}

// Model is a language model with packed weights.
type Model struct {
	config    models.Config
	limit     int
	scale     float32
	tokens    packed.Weight
	positions packed.Weight // nil where attention turns by position
	layers    []layer
	norm      norm
	head      projection
	cap       float32
	pool      *kernel.Pool
	bytes     int
}

type layer struct {
	attentionNorm, attentionPost norm
	attention                    attention
	mlpNorm, mlpPost             norm
	mlp                          mlp
}

// New packs a model.
func New(m models.Model, c Config) (*Model, error) {
	parts, err := models.PartsOf(m)
	if err != nil {
		return nil, err
	}
	b := &builder{Config: c, config: parts.Config}
	if b.Read == nil {
		b.Read = func(p *nn.Param) (array.Array, error) {
			if p.Value == nil {
				return array.Array{}, fmt.Errorf("parameter %q has no value", p.Name)
			}
			return cpu.Read(p.Value)
		}
	}
	out := b.model(parts)
	if b.err != nil {
		return nil, fmt.Errorf("%s: %w", parts.Config.Family, b.err)
	}
	out.pool = kernel.NewPool(c.Threads)
	return out, nil
}

// Config is the model's shape.
func (m *Model) Config() models.Config { return m.config }

// Limit is the longest sequence; 0 is no limit.
func (m *Model) Limit() int { return m.limit }

// Bytes is the memory of the weights.
func (m *Model) Bytes() int { return m.bytes }

// StepBytes is how much of the weights a step reads: all but a table of which it takes single rows.
func (m *Model) StepBytes() int {
	n := m.bytes
	if m.head.weight != m.tokens {
		n -= m.tokens.Bytes()
	}
	return n
}

// Pool is the threads that compute.
func (m *Model) Pool() *kernel.Pool { return m.pool }

// Close ends the threads.
func (m *Model) Close() { m.pool.Close() }

// builder packs parts; the first error stays.
type builder struct {
	Config
	config models.Config
	bytes  int
	err    error
}

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *builder) model(p models.Parts) *Model {
	m := &Model{config: p.Config, limit: p.Limit, scale: float32(p.Scale), cap: float32(p.Cap)}
	m.tokens = b.kept(p.Tokens.Weight)
	if p.Positions != nil {
		m.positions = b.kept(p.Positions.Weight)
	}
	for _, l := range p.Layers {
		m.layers = append(m.layers, b.layer(l))
	}
	m.norm = b.norm(p.Norm)
	m.head = projection{weight: m.tokens, bias: b.vector(p.HeadBias)}
	if p.Head != nil {
		m.head = projection{weight: b.kept(p.Head.Weight), bias: b.vector(p.Head.Bias)}
	}
	m.bytes = b.bytes
	return m
}

func (b *builder) layer(l models.LayerParts) layer {
	return layer{
		attentionNorm: b.norm(l.AttentionNorm), attentionPost: b.norm(l.AttentionPost),
		attention: b.attention(l.Attention),
		mlpNorm:   b.norm(l.MLPNorm), mlpPost: b.norm(l.MLPPost),
		mlp: b.mlp(l.MLP),
	}
}

// read is a parameter's values, empty after an error.
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

// weight packs parameters [out, in], one below the other.
func (b *builder) weight(ps ...*nn.Param) packed.Weight {
	if w := b.stored(ps); w != nil {
		return w
	}
	var all []array.Array
	for _, p := range ps {
		a, ok := b.read(p)
		if !ok {
			return nil
		}
		all = append(all, a)
	}
	return b.pack(packed.Rows(all...))
}

// kept packs a table or a router, which does not become integers.
func (b *builder) kept(p *nn.Param) packed.Weight {
	plain := *b
	plain.Weights, plain.bytes = b.Weights.Kept(), 0
	w := plain.weight(p)
	b.fail(plain.err)
	b.bytes += plain.bytes
	return w
}

// stored packs parameters that are stored as integers; nil where one is not, or other weights are wanted.
func (b *builder) stored(ps []*nn.Param) packed.Weight {
	var all []quant.Matrix
	for _, p := range ps {
		m, ok := b.grouped(p)
		if !ok {
			return nil
		}
		all = append(all, m)
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

// took counts a weight.
func (b *builder) took(w packed.Weight, err error) packed.Weight {
	if err != nil {
		b.fail(err)
		return nil
	}
	b.bytes += w.Bytes()
	return w
}

// vector is a parameter as float32; nil stays nil.
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
