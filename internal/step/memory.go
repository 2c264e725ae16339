package step

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/offload"
)

// memory is that of one device: one block, cut into buffers.
type memory struct {
	arrays []array.Array
	taken  int
	// store keeps the buffers that are away.
	store offload.Store
}

// allocate takes the memory of a tape.
func (t *tape) allocate(c RunConfig) (*memory, error) {
	m := t.cut(array.New(array.U8, t.memory().Peak()).Bytes(), nil)
	if len(t.store) == 0 {
		return m, nil
	}
	if c.Offload == nil {
		return nil, fmt.Errorf("step: device %d keeps %d tensors elsewhere: want Offload to say where", t.device,
			len(t.store))
	}
	var err error
	m.store, err = c.Offload(t.device, t.store)
	return m, err
}

// cut makes buffers of a block, which has what lives within a step first and then state; given is those that
// are elsewhere.
func (t *tape) cut(block []byte, given map[int]array.Array) *memory {
	m := &memory{taken: t.slab}
	for i := range t.buffers {
		b := &t.buffers[i]
		if a, ok := given[i]; ok {
			m.arrays = append(m.arrays, a)
			continue
		}
		if b.away {
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
