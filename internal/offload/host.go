package offload

import (
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// Host keeps tensors in the host's memory.
type Host struct {
	mu      sync.RWMutex
	types   []ir.Type
	tensors []array.Array // nil when closed
	bytes   int
}

var _ Store = (*Host)(nil)

// NewHost takes the memory for tensors of these types.
func NewHost(types []ir.Type) (*Host, error) {
	types, err := copyTypes(types)
	if err != nil {
		return nil, err
	}
	h := &Host{types: types, tensors: make([]array.Array, len(types))}
	for i, t := range types {
		h.tensors[i] = array.New(t.DType, t.Shape...)
		h.bytes += t.Bytes()
	}
	return h, nil
}

// Put copies a to be tensor i.
func (h *Host) Put(i int, a array.Array) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tensors == nil {
		return errClosed
	}
	if err := check("put", h.types, i, a); err != nil {
		return err
	}
	copy(h.tensors[i].Bytes(), a.Bytes())
	return nil
}

// Get copies tensor i.
func (h *Host) Get(i int, into array.Array) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.tensors == nil {
		return errClosed
	}
	if err := check("get", h.types, i, into); err != nil {
		return err
	}
	copy(into.Bytes(), h.tensors[i].Bytes())
	return nil
}

// GetPart copies bytes of tensor i from an offset on.
func (h *Host) GetPart(i, offset int, into []byte) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.tensors == nil {
		return errClosed
	}
	if err := checkPart(h.types, i, offset, into); err != nil {
		return err
	}
	copy(into, h.tensors[i].Bytes()[offset:])
	return nil
}

// Bytes returns the memory of all tensors.
func (h *Host) Bytes() int { return h.bytes }

// Close lets go of the memory.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tensors = nil
	return nil
}
