package step

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/offload"
)

// memory is that of one device: one block, divided into buffers.
type memory struct {
	arrays []array.Array
	taken  int
	// store holds the offloaded buffers.
	store offload.Store
}

// allocate allocates the memory of a tape.
func (t *tape) allocate(c RunConfig) (*memory, error) {
	m := t.divide(array.New(array.U8, t.memory().Peak()).Bytes(), nil)
	if len(t.store) == 0 {
		return m, nil
	}
	if c.Offload == nil {
		return nil, fmt.Errorf("step: device %d has %d offloaded tensors: want RunConfig.Offload", t.device,
			len(t.store))
	}
	var err error
	m.store, err = c.Offload(t.device, t.store)
	return m, err
}

// divide divides a block into buffers, first those that live within a step and then state; given holds the
// arrays of buffers that have memory of their own.
func (t *tape) divide(block []byte, given map[int]array.Array) *memory {
	m := &memory{taken: t.slab}
	for i := range t.buffers {
		b := &t.buffers[i]
		if a, ok := given[i]; ok {
			m.arrays = append(m.arrays, a)
			continue
		}
		if b.offloaded {
			m.arrays = append(m.arrays, array.Array{})
			continue
		}
		at := b.offset
		if b.persistent() {
			at = m.taken
			m.taken += b.bytes()
		}
		bytes := block[at : at+b.bytes()]
		m.arrays = append(m.arrays, array.View(b.t.DType, b.t.Shape, bytes[:b.t.Bytes()]))
	}
	return m
}
