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
	// Threads is how many compute; 0 is all. Devices share them.
	Threads int
	// KV is how keys and values are kept; empty means f32.
	KV KVFormat
	// TP is over how many devices of this process heads, pages and the rows of matrices are split; 0 means 1.
	TP int
}

// Model is a language model with packed weights: the part of one device, where there are several.
type Model struct {
	others []*Model // the parts of further devices

	config     models.Config
	limit      int
	scale      float32
	tokens     packed.Weight
	vocab      span          // whose rows of tokens and head these are
	positions  packed.Weight // nil where attention turns by position
	layers     []layer
	norm       norm
	head       projection
	cap        float32
	logitScale float32
	pool       *kernel.Pool
	rank       int
	kv         KVFormat
	products   []projection // those that adapters may change
	bytes      int
}

type layer struct {
	attentionNorm, attentionPost norm
	attention                    attention
	mlpNorm, mlpPost             norm
	mlp                          mlp
	parallel                     bool    // the MLP sees what attention does
	scale                        float32 // of what both add
}

// New packs a model.
func New(m models.Model, c Config) (*Model, error) {
	parts, err := models.PartsOf(m)
	if err != nil {
		return nil, err
	}
	c.TP = max(1, c.TP)
	if c.KV == "" {
		c.KV = KVF32
	}
	if err := c.KV.check(); err != nil {
		return nil, err
	}
	if c.Read == nil {
		c.Read = func(p *nn.Param) (array.Array, error) {
			if p.Value == nil {
				return array.Array{}, fmt.Errorf("parameter %q has no value", p.Name)
			}
			return cpu.Read(p.Value)
		}
	}
	var all []*Model
	for rank := range c.TP {
		b := &builder{Config: c, config: parts.Config, rank: rank}
		if err := b.divides(parts); err != nil {
			return nil, fmt.Errorf("%s: %w", parts.Config.Family, err)
		}
		all = append(all, b.model(parts))
		if b.err != nil {
			return nil, fmt.Errorf("%s: %w", parts.Config.Family, b.err)
		}
	}
	for _, m := range all {
		m.pool = kernel.NewPool(threadsEach(c))
	}
	all[0].others = all[1:]
	return all[0], nil
}

// Config returns the model's shape.
func (m *Model) Config() models.Config { return m.config }

// Limit returns the longest sequence; 0 is no limit.
func (m *Model) Limit() int { return m.limit }

// devices returns the parts of all devices.
func (m *Model) devices() []*Model { return append([]*Model{m}, m.others...) }

// Bytes returns the memory of the weights.
func (m *Model) Bytes() int {
	n := 0
	for _, d := range m.devices() {
		n += d.bytes
	}
	return n
}

// StepBytes returns how much of the weights a step reads: all but a table of which it takes single rows.
func (m *Model) StepBytes() int {
	n := m.Bytes()
	for _, d := range m.devices() {
		if d.head.weight != d.tokens {
			n -= d.tokens.Bytes()
		}
	}
	return n
}

// Pool returns the threads that compute.
func (m *Model) Pool() *kernel.Pool { return m.pool }

// Close ends the threads.
func (m *Model) Close() {
	for _, d := range m.devices() {
		d.pool.Close()
	}
}
