package paged

import (
	"context"
	"fmt"
	"runtime"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/transport"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// Tensor parallelism: every device has some heads, the pages of their keys and values, and some rows of every
// matrix. Its results for a row are gathered from all devices before the next product, so each sum is
// computed by one device, in the same order as on a single one: no bit depends on the number of devices.

// span is the range of elements [lo, hi).
type span struct{ lo, hi int }

func (s span) len() int { return s.hi - s.lo }

// times returns the span in units of elements, for items of n elements each, starting at element first.
func (s span) times(n, first int) span { return span{first + s.lo*n, first + s.hi*n} }

// piece is a range of rows of a matrix, and of its bias, that becomes part of a product.
type piece struct {
	weight, bias *nn.Param
	dense        bool // the weight is stored [in, out]
	rows         span
}

// whole returns a matrix that is replicated on every device.
func whole(p *nn.Param) piece { return piece{weight: p, rows: span{0, p.Type.Shape[0]}} }

// share returns a device's range of n.
func (b *builder) share(n int) span { return span{n * b.rank / b.TP, n * (b.rank + 1) / b.TP} }

// ownKeys returns the key heads of a device: those of its queries, which several devices may share.
func (b *builder) ownKeys(keys int) span {
	if keys < b.TP {
		at := keys * b.rank / b.TP
		return span{at, at + 1}
	}
	return b.share(keys)
}

// divides returns an error if a model cannot be split over the devices.
func (b *builder) divides(p models.Parts) error {
	n := b.TP
	if n == 1 {
		return nil
	}
	if b.Watch != nil {
		return fmt.Errorf("tp %d: inputs are watched on one device only", n)
	}
	for _, l := range p.Layers {
		h := headsOf(l.Attention)
		if h.Queries%n != 0 || h.Keys%n != 0 && n%h.Keys != 0 {
			return fmt.Errorf(
				"tp %d: heads: the model has %d, and %d of keys and values: want a divisor of the first "+
					"that divides the second or is a multiple of it",
				n,
				h.Queries,
				h.Keys,
			)
		}
		if a, ok := l.Attention.(*nn.Attention); ok && (a.QWide != nil || a.KWide != nil) {
			return fmt.Errorf("tp %d: the model normalises all heads of a token together: want tp 1", n)
		}
	}
	return nil
}

func headsOf(a nn.Attender) nn.Heads {
	switch a := a.(type) {
	case *nn.Attention:
		return a.Heads
	case *nn.FusedAttention:
		return a.Heads
	case *nn.LatentAttention:
		return a.Heads
	}
	return nn.Heads{}
}

// threadsEach returns the number of threads of each device.
func threadsEach(c Config) int {
	n := c.Threads
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	return max(1, n/c.TP)
}

// team holds the steps of all devices.
type team struct {
	world comm.World
	steps []*Step
}

func newTeam(m *Model, c *Cache, rows int) *team {
	world, err := transport.New(1 + len(m.others))
	if err != nil {
		panic(err) // there is at least one
	}
	t := &team{world: world}
	for i, d := range m.devices() {
		part := c
		if i > 0 {
			part = c.others[i-1]
		}
		t.steps = append(t.steps, newStep(d, part, rows))
	}
	return t
}

// run runs a step on all devices and returns the logits of the first one.
func (t *team) run(seqs []Sequence) (logits []float32) {
	err := t.world.Run(context.Background(), func(_ context.Context, c comm.Comm) error {
		g, err := c.Group(nil)
		if err != nil {
			return err
		}
		s := t.steps[c.ID()]
		s.group = g
		out := s.run(seqs)
		if c.ID() == 0 {
			logits = out
		}
		return nil
	})
	if err != nil {
		panic(err) // devices of one process that run one program: a bug
	}
	return logits
}

// join gathers rows of total columns of which each device has some, into memory that is reused; with a single
// device it returns the part itself.
func (s *Step) join(keep *[]float32, part []float32, rows, total int) []float32 {
	if s.group == nil || rows == 0 {
		return part
	}
	to := grown(keep, rows*total)
	_, err := s.group.AllGather(array.FromSlice(to, rows, total), array.FromSlice(part, rows, len(part)/rows), 1)
	if err != nil {
		panic(err)
	}
	return to
}

// owner returns the device that holds a token's embedding.
func (m *Model) owner(id, tp int) int {
	for r := range tp {
		if id < m.config.Vocab*(r+1)/tp {
			return r
		}
	}
	return tp - 1
}
