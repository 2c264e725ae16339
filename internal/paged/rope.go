package paged

import (
	"math"
	"sync"

	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// rope rotates queries and keys by position, with tables of cosines and sines that are computed when
// positions first occur.
type rope struct {
	freqs      []float64
	factor     float64
	neighbours bool

	mu     sync.Mutex
	blocks map[int]*kernel.Rotation[float32]
}

// newRope returns the rotary positions of heads, at most dim elements of each; nil for none.
func newRope(h nn.Heads, dim int) *rope {
	if h.RoPE == nil {
		return nil
	}
	c := h.RoPE(1)
	r := &rope{freqs: frequencies(c, dim), factor: c.Factor, neighbours: c.Style == "interleaved",
		blocks: map[int]*kernel.Rotation[float32]{}}
	if r.factor == 0 {
		r.factor = 1
	}
	return r
}

// frequencies returns the angle of each pair at position 1.
func frequencies(c op.RoPEConfig, dim int) []float64 {
	if len(c.Freqs) > 0 {
		return c.Freqs
	}
	if c.Dim != 0 {
		dim = c.Dim
	}
	f := make([]float64, dim/2)
	for i := range f {
		f[i] = math.Pow(c.Theta, -float64(i)/float64(len(f)))
	}
	return f
}

// block returns the table of the positions around one.
func (r *rope) block(position int) *kernel.Rotation[float32] {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := position / kernel.RotationBlock
	t := r.blocks[b]
	if t == nil {
		positions := make([]int, kernel.RotationBlock)
		for i := range positions {
			positions[i] = b*kernel.RotationBlock + i
		}
		t = kernel.NewRotation[float32](nil, r.freqs, positions, r.factor, 1)
		r.blocks[b] = t
	}
	return t
}

// turns holds space for a head that is being rotated.
var turns = sync.Pool{New: func() any { return new([maxHead]float32) }}

// turn rotates consecutive heads of width elements.
func (r *rope) turn(x []float32, position, width int) {
	if r == nil {
		return
	}
	t, p := r.block(position), position%kernel.RotationBlock
	if r.neighbours {
		t.Neighbours(x, x, p, width)
		return
	}
	tmp := turns.Get().(*[maxHead]float32)
	t.Halves(x, x, p, width, tmp[:width])
	turns.Put(tmp)
}
