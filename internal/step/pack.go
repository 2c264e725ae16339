package step

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// bytesType returns the type of untyped memory.
func bytesType(n int) ir.Type { return ir.Type{DType: array.U8, Shape: array.Shape{n}} }

// pack assigns every buffer that lives within a step its offset in the slab: the largest first, each at the
// lowest offset that does not overlap with a buffer alive at the same time.
func (t *tape) pack() {
	t.awaitSends()
	var todo []int
	for i := range t.buffers {
		b := &t.buffers[i]
		b.last = max(b.last, b.held)
		if b.inSlab() {
			todo = append(todo, i)
		}
	}
	t.placeOffloaded()
	slices.SortStableFunc(todo, func(i, j int) int { return t.buffers[j].bytes() - t.buffers[i].bytes() })
	var laid []int // by offset
	for _, i := range todo {
		b := &t.buffers[i]
		b.offset = t.gap(laid, b)
		t.slab = max(t.slab, b.offset+b.bytes())
		k, _ := slices.BinarySearchFunc(laid, b.offset,
			func(j, offset int) int { return t.buffers[j].offset - offset })
		laid = slices.Insert(laid, k, i)
	}
}

func (t *tape) gap(laid []int, b *buffer) int {
	offset := 0
	for _, i := range laid {
		l := &t.buffers[i]
		if l.last < b.first || b.last < l.first {
			continue
		}
		if offset+b.bytes() <= l.offset {
			break
		}
		offset = max(offset, l.offset+l.bytes())
	}
	return offset
}

// bytes returns a buffer's size in memory.
func (b *buffer) bytes() int {
	return (b.t.Bytes() + array.Alignment - 1) &^ (array.Alignment - 1)
}

// Memory is what a device needs in a step, in bytes.
type Memory struct {
	// Weights, Slots and Sums live from step to step: the parameters, the optimizer's state, the gradients.
	Weights, Slots, Sums int
	// Step is the memory of the step itself: activations, messages, the programs' own arenas.
	Step int
}

// Peak returns the sum of all parts.
func (m Memory) Peak() int { return m.Weights + m.Slots + m.Sums + m.Step }

func (t *tape) memory() Memory {
	m := Memory{Step: t.slab}
	for i := range t.buffers {
		b := &t.buffers[i]
		if b.offloaded {
			continue
		}
		switch b.key.kind {
		case weightBuffer:
			m.Weights += b.bytes()
		case slotBuffer:
			m.Slots += b.bytes()
		case sumBuffer:
			m.Sums += b.bytes()
		case scalarBuffer, seedBuffer, reportBuffer, resultBuffer:
			m.Step += b.bytes()
		}
	}
	return m
}

// live returns the bytes of the buffers that live within a step only and are alive at an instruction.
func (t *tape) live(i int) int {
	n := 0
	for k := range t.buffers {
		if b := &t.buffers[k]; b.inSlab() && b.first <= i && i <= b.last {
			n += b.bytes()
		}
	}
	return n
}
