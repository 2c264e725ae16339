package decode

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Config describes how a model is stored; fields with the names of package paged's mean the same.
type Config struct {
	Backend backend.Backend
	Weights packed.Format
	Read    func(p *nn.Param) (array.Array, error)
	Grouped func(p *nn.Param) (m quant.Matrix, ok bool, err error)
	// KV is f32 or bf16; empty means f32.
	KV paged.KVFormat
	// Threads sample on the host, for requests whose sampling the backend does not support.
	Threads int
}

// Model is a language model whose weights are on a backend.
type Model struct {
	b       backend.Backend
	m       models.Model // shapes, and names that are bound to values while a program is traced
	limit   int
	kv      array.DType
	weights []backend.Buffer
	bytes   int
	pool    *kernel.Pool
}

// New copies a model's weights to a backend, one at a time.
func New(m models.Model, c Config) (*Model, error) {
	parts, err := models.PartsOf(m)
	if err != nil {
		return nil, err
	}
	d := &Model{b: c.Backend, limit: parts.Limit}
	switch c.KV {
	case "", paged.KVF32:
		d.kv = array.F32
	case paged.KVBF16:
		d.kv = array.BF16
	default:
		return nil, fmt.Errorf("keys and values as %s: on a backend they are f32 or bf16", c.KV)
	}
	l := loader{Config: c, from: m}
	if d.m, err = l.shape(); err != nil {
		return nil, err
	}
	for _, p := range d.m.Params() {
		a, err := l.value(p)
		if err == nil {
			var b backend.Buffer
			if b, err = c.Backend.Put(a); err == nil {
				d.weights, d.bytes = append(d.weights, b), d.bytes+p.Type.Bytes()
			}
		}
		if err != nil {
			d.free()
			return nil, fmt.Errorf("%s: parameter %q: %w", parts.Config.Family, p.Name, err)
		}
	}
	d.pool = kernel.NewPool(c.Threads)
	return d, nil
}

// Config returns the model's configuration.
func (d *Model) Config() models.Config { return d.m.Config() }

// Limit returns the length of the longest sequence; 0 means no limit.
func (d *Model) Limit() int { return d.limit }

// Bytes returns the size of the weights.
func (d *Model) Bytes() int { return d.bytes }

// StepBytes returns the bytes of weights that a step reads: all but an embedding table of single rows.
func (d *Model) StepBytes() int {
	parts, err := models.PartsOf(d.m)
	if err != nil || parts.Head == nil {
		return d.bytes
	}
	return d.bytes - parts.Tokens.Weight.Type.Bytes()
}

// PageBytes returns the size of one page in all layers.
func (d *Model) PageBytes() int {
	n := 0
	for _, t := range d.poolTypes(1) {
		n += t.Bytes()
	}
	return n
}

// poolTypes returns the types of the memory of the given number of pages.
func (d *Model) poolTypes(pages int) []op.Type {
	return models.PoolTypes(d.m, pages*paged.PageTokens, d.kv)
}

// Pool returns the thread pool of the host.
func (d *Model) Pool() *kernel.Pool { return d.pool }

func (d *Model) free() {
	for _, b := range d.weights {
		b.Free()
	}
	d.weights = nil
}

// Close releases the weights.
func (d *Model) Close() {
	d.free()
	d.pool.Close()
}
