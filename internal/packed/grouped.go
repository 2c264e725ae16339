package packed

import (
	"fmt"
	"math"
	"sync"

	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/quant"
)

// grouped is a weight of 8 or 4 bits in panels of 16 rows.
type grouped struct {
	out, in int
	shape   kernel.Grouped
	data    []byte
	scales  []uint16
	zeros   []byte // nil where the zero point is the middle of the range
	// factor is a power of two by which scales are less than they are, so that they fit into 16 bits.
	factor float32
	// order is which input each column takes; nil is its own.
	order []int32
}

// Grouped packs matrices of small integers, one below the other. Those that differ in their form become
// several weights that act as one.
func Grouped(ms ...quant.Matrix) (Weight, error) {
	if len(ms) == 0 {
		return nil, fmt.Errorf("packed: no matrix")
	}
	var parts []Weight
	for at := 0; at < len(ms); {
		end := at + 1
		for end < len(ms) && ms[end].Alike(ms[at]) {
			end++
		}
		if ms[at].In != ms[0].In {
			return nil, fmt.Errorf("packed: matrices of %d and %d columns: want equally many", ms[0].In, ms[at].In)
		}
		w, err := packGrouped(ms[at:end])
		if err != nil {
			return nil, err
		}
		parts, at = append(parts, w), end
	}
	return Stack(parts...), nil
}

func packGrouped(ms []quant.Matrix) (Weight, error) {
	m := ms[0]
	g := &grouped{in: m.In, factor: factorOf(ms), order: m.Order,
		shape: kernel.Grouped{Group: m.Group, Groups: m.Groups(), Bits: m.Bits, LDY: kernel.GroupedRows}}
	for _, m := range ms {
		if err := m.Check(); err != nil {
			return nil, fmt.Errorf("packed: %w", err)
		}
		g.out += m.Out
	}
	panels := (g.out + kernel.GroupedRows - 1) / kernel.GroupedRows
	g.data = kernel.MakeLarge[byte](panels * g.shape.PanelBytes())
	g.scales = kernel.MakeLarge[uint16](panels * g.shape.Groups * kernel.GroupedRows)
	if m.Zeros != nil {
		g.zeros = kernel.MakeLarge[byte](len(g.scales))
	}
	at := 0
	for _, m := range ms {
		for j := range m.Out {
			g.put(at+j, m, j)
		}
		at += m.Out
	}
	return g, nil
}

// factorOf returns the power of two that makes the largest scale one of the largest that 16 bits hold.
func factorOf(ms []quant.Matrix) float32 {
	top := float32(0)
	for _, m := range ms {
		for _, s := range m.Scales {
			top = max(top, s, -s)
		}
	}
	if top == 0 || math.IsInf(float64(top), 0) || top != top {
		return 1
	}
	_, exp := math.Frexp(float64(top))
	return float32(math.Ldexp(1, exp-15))
}

// put stores row j of m as row at.
func (g *grouped) put(at int, m quant.Matrix, j int) {
	panel, lane := at/kernel.GroupedRows, at%kernel.GroupedRows
	n := g.shape.Groups
	for i := range n {
		to := (panel*n+i)*kernel.GroupedRows + lane
		g.scales[to] = kernel.F32ToF16(m.Scales[j*n+i] / g.factor)
		if g.zeros != nil {
			g.zeros[to] = m.Zeros[j*n+i]
		}
	}
	data := g.data[panel*g.shape.PanelBytes():]
	row := m.Values[j*m.In : (j+1)*m.In]
	if g.shape.Bits == 8 {
		for p, v := range row {
			data[(p/4*kernel.GroupedRows+lane)*4+p%4] = v
		}
		return
	}
	for p, v := range row {
		data[(p/8*kernel.GroupedRows+lane)*4+p%4] |= v << (p / 4 % 2 * 4)
	}
}

func (g *grouped) Out() int   { return g.out }
func (g *grouped) In() int    { return g.in }
func (g *grouped) Bytes() int { return len(g.data) + 2*len(g.scales) + len(g.zeros) + 4*len(g.order) }

func (g *grouped) Row(dst []float32, j int) {
	panel, lane := j/kernel.GroupedRows, j%kernel.GroupedRows
	data := g.data[panel*g.shape.PanelBytes():]
	for p := range g.in {
		at := (panel*g.shape.Groups+p/g.shape.Group)*kernel.GroupedRows + lane
		zero := int(1) << (g.shape.Bits - 1)
		if g.zeros != nil {
			zero = int(g.zeros[at])
		}
		to := p
		if g.order != nil {
			to = int(g.order[p])
		}
		scale := kernel.F16ToF32(g.scales[at]) * g.factor
		dst[to] = float32(int(g.shape.Weight(data, lane, p))-zero) * scale
	}
}

// groupedJob is a product in progress: its activations of 8 bits, and rows of them in another order. They are
// kept, so that a product allocates nothing.
type groupedJob struct {
	w          *grouped
	y, x       []float32
	ldy, rows  int
	small      []byte
	reordered  []float32
	round, run func(lo, hi int)
}

var groupedJobs = sync.Pool{New: func() any {
	j := new(groupedJob)
	j.round = func(lo, hi int) {
		g, n := j.w, j.w.shape.Stride()
		for i := lo; i < hi; i++ {
			g.shape.Activations(j.small[i*n:], j.x[i*g.in:(i+1)*g.in], g.zeros != nil, g.factor)
		}
	}
	j.run = func(lo, hi int) {
		for q := lo; q < hi; q++ {
			j.w.panel(j.y, j.ldy, j.small, j.rows, q)
		}
	}
	return j
}}

func (g *grouped) Multiply(p *kernel.Pool, y, x []float32, rows int) { g.into(p, y, g.out, x, rows) }

// groupedTask is how many bytes of weights a thread takes at a time.
const groupedTask = 1 << 16

// into is like Multiply with rows of y that are ldy apart.
func (g *grouped) into(p *kernel.Pool, y []float32, ldy int, x []float32, rows int) {
	if rows == 0 || g.out == 0 {
		return
	}
	j := groupedJobs.Get().(*groupedJob)
	if n := rows * g.shape.Stride(); len(j.small) < n {
		j.small = make([]byte, n)
	}
	j.w, j.y, j.ldy, j.rows, j.x = g, y, ldy, rows, g.ordered(j, x, rows)
	p.For(rows, max(1, 1<<14/g.in), j.round)
	panels := (g.out + kernel.GroupedRows - 1) / kernel.GroupedRows
	p.For(panels, max(1, groupedTask/max(1, g.shape.PanelBytes())), j.run)
	j.w, j.y, j.x = nil, nil, nil
	groupedJobs.Put(j)
}

// ordered returns x with its columns in the order of the weight's.
func (g *grouped) ordered(r *groupedJob, x []float32, rows int) []float32 {
	if g.order == nil {
		return x
	}
	if len(r.reordered) < rows*g.in {
		r.reordered = make([]float32, rows*g.in)
	}
	for i := range rows {
		row, to := x[i*g.in:(i+1)*g.in], r.reordered[i*g.in:(i+1)*g.in]
		for p, from := range g.order {
			to[p] = row[from]
		}
	}
	return r.reordered
}

func (g *grouped) panel(y []float32, ldy int, x []byte, rows, q int) {
	o := g.shape
	o.Rows, o.LDY = rows, ldy
	n := o.Groups * kernel.GroupedRows
	data, scales := g.data[q*o.PanelBytes():(q+1)*o.PanelBytes()], g.scales[q*n:(q+1)*n]
	var zeros []byte
	if g.zeros != nil {
		zeros = g.zeros[q*n : (q+1)*n]
	}
	first := q * kernel.GroupedRows
	cols := min(kernel.GroupedRows, g.out-first)
	if cols == kernel.GroupedRows {
		o.Multiply(y[first:], x, data, scales, zeros)
		return
	}
	t := tails.Get().(*tail)
	if len(t.y) < rows*kernel.GroupedRows {
		t.y = make([]float32, rows*width)
	}
	o.LDY = kernel.GroupedRows
	o.Multiply(t.y, x, data, scales, zeros)
	for i := range rows {
		copy(y[i*ldy+first:i*ldy+g.out], t.y[i*kernel.GroupedRows:])
	}
	tails.Put(t)
}
