package paged

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/models"
)

// Adapter is a low-rank update of some matrices of a model, for the sequences that select it: the weights are
// unchanged, so one step can have sequences with different adapters, and without.
type Adapter struct {
	devices []map[pieceKey]lowRank
	bytes   int
}

// pieceKey identifies rows of a parameter, starting at one.
type pieceKey struct {
	name  string
	first int
}

// lowRank is scale·b·a, and factors of the rows that apply afterwards; nil for none.
type lowRank struct {
	a, b  packed.Weight
	scale float32
	gain  []float32
}

// adaptedRows is a range of a step's rows with one adapter.
type adaptedRows struct {
	lo, hi int
	parts  map[pieceKey]lowRank
}

// Bytes returns the memory of an adapter.
func (a *Adapter) Bytes() int { return a.bytes }

// Adapter packs an adapter for the model.
func (m *Model) Adapter(layers []models.AdapterLayer) (*Adapter, error) {
	a := &Adapter{}
	for _, d := range m.devices() {
		parts := map[pieceKey]lowRank{}
		for _, l := range layers {
			found := false
			for _, p := range d.products {
				n, err := a.put(parts, p, l)
				if err != nil {
					return nil, fmt.Errorf("adapter: %s: %w", l.Weight, err)
				}
				found = found || n
			}
			if !found {
				return nil, fmt.Errorf(
					"adapter: %s: an adapter of it cannot be served: want layers of attention and MLPs",
					l.Weight,
				)
			}
		}
		a.devices = append(a.devices, parts)
	}
	return a, nil
}

// put packs a layer's update of the pieces of a product; it reports whether the layer has any.
func (a *Adapter) put(
	parts map[pieceKey]lowRank,
	p projection,
	l models.AdapterLayer,
) (found bool, err error) {
	at := 0
	for _, piece := range p.pieces {
		if piece.weight.Name != l.Weight {
			at += piece.rows.len()
			continue
		}
		r := lowRank{scale: float32(l.Scale)}
		if r.a, err = packed.Pack(packed.Auto, packed.Rows(l.A)); err != nil {
			return false, err
		}
		if r.b, err = packed.Pack(packed.Auto, packed.Rows(l.B).Cut(piece.rows.lo, piece.rows.hi)); err != nil {
			return false, err
		}
		if l.Magnitude.IsValid() {
			r.gain = gains(p.weight, at, piece.rows, l)
		}
		a.bytes += r.a.Bytes() + r.b.Bytes() + 4*len(r.gain)
		parts[pieceKey{l.Weight, piece.rows.lo}] = r
		at, found = at+piece.rows.len(), true
	}
	return found, nil
}

// gains returns DoRA's factors of rows: their magnitudes divided by the norms of the updated weights.
func gains(w packed.Weight, at int, rows span, l models.AdapterLayer) []float32 {
	in, rank := w.In(), l.A.Shape()[0]
	a, b, m := floats(l.A), floats(l.B), floats(l.Magnitude)
	gain, row := make([]float32, rows.len()), make([]float32, in)
	for j := range gain {
		w.Row(row, at+j)
		for r := range rank {
			f := float32(l.Scale) * b[(rows.lo+j)*rank+r]
			for i, x := range a[r*in : (r+1)*in] {
				row[i] += f * x
			}
		}
		sum := 0.0
		for _, x := range row {
			sum += float64(x) * float64(x)
		}
		gain[j] = float32(float64(m[rows.lo+j]) / math.Sqrt(sum))
	}
	return gain
}

func floats(a array.Array) []float32 {
	x := make([]float32, a.Len())
	if !packed.Floats(x, a, 0) {
		for i := range x {
			x[i] = float32(a.At(i))
		}
	}
	return x
}

// noteAdapter records that rows from first on have an adapter, merged with the previous ones if they have the
// same.
func (s *Step) noteAdapter(a *Adapter, first int) {
	if a == nil {
		return
	}
	parts := a.devices[s.model.rank]
	if n := len(s.adapted); n > 0 && s.adapted[n-1].hi == first && s.lastAdapter == a {
		s.adapted[n-1].hi = s.count
		return
	}
	s.lastAdapter = a
	s.adapted = append(s.adapted, adaptedRows{first, s.count, parts})
}

// adapt applies an adapter to the product of its rows.
func (s *Step) adapt(p projection, r adaptedRows, y, x []float32) {
	in, out, n := p.weight.In(), p.weight.Out(), r.hi-r.lo
	at := 0
	for _, piece := range p.pieces {
		width := piece.rows.len()
		if c, ok := r.parts[pieceKey{piece.weight.Name, piece.rows.lo}]; ok {
			low := grown(&s.lowRows, n*c.a.Out())
			c.a.Multiply(s.pool(), low, x[r.lo*in:r.hi*in], n)
			kernel.MulScalar(low, low, c.scale)
			change := grown(&s.changeRows, n*width)
			c.b.Multiply(s.pool(), change, low, n)
			for i := range n {
				row := y[(r.lo+i)*out+at : (r.lo+i)*out+at+width]
				kernel.Add(row, row, change[i*width:(i+1)*width])
				if c.gain != nil {
					kernel.Mul(row, row, c.gain)
				}
			}
		}
		at += width
	}
}
