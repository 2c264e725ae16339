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

// lanes is the multiple to which rows of a cache are padded.
const lanes = kernel.OrderedLanes

// Config configures how a model is stored.
type Config struct {
	// Weights is the format of matrices; the zero value keeps the model's own.
	Weights packed.Format
	// Read returns a parameter's values; nil takes those of the model, which must be eager.
	Read func(p *nn.Param) (array.Array, error)
	// Grouped returns matrices that are stored quantized, and nothing for others; nil for models without any. It
	// is called if Weights keeps the model's own format.
	Grouped func(p *nn.Param) (m quant.Matrix, ok bool, err error)
	// Watch, if not nil, observes the inputs of every matrix of the layers while steps run: of a parameter, and
	// of one of its experts, or 0.
	Watch func(p *nn.Param, part int, x []float32, rows int)
	// Threads is the number of threads that devices share; 0 means all.
	Threads int
	// KV is the storage format of keys and values; empty means f32.
	KV KVFormat
	// TP is the tensor-parallel degree: the number of devices of this process over which heads, pages and the
	// rows of matrices are split; 0 means 1.
	TP int
}

// Model is a language model with packed weights, or one device's shard of it.
type Model struct {
	others []*Model // the shards of further devices

	config     models.Config
	limit      int
	scale      float32
	tokens     packed.Weight
	vocab      span          // the rows of embedding and head on this device
	positions  packed.Weight // nil with rotary positions
	layers     []layer
	norm       norm
	head       projection
	cap        float32
	logitScale float32
	pool       *kernel.Pool
	rank       int
	kv         KVFormat
	products   []projection // those that adapters may update
	bytes      int
	watched    bool // the inputs of matrices are observed
}

type layer struct {
	attentionNorm, attentionPost norm
	attention                    attention
	mlpNorm, mlpPost             norm
	mlp                          mlp
	parallel                     bool    // the MLP reads the input of attention
	scale                        float32 // of the outputs of both
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

// Config returns the model's configuration.
func (m *Model) Config() models.Config { return m.config }

// Limit returns the longest sequence; 0 means no limit.
func (m *Model) Limit() int { return m.limit }

// devices returns the shards of all devices.
func (m *Model) devices() []*Model { return append([]*Model{m}, m.others...) }

// Bytes returns the memory of the weights.
func (m *Model) Bytes() int {
	n := 0
	for _, d := range m.devices() {
		n += d.bytes
	}
	return n
}

// StepBytes returns how much of the weights a step reads: all but an embedding table, of which it takes
// single rows.
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
