package kernel

import (
	"sync"
	"unsafe"
)

// packedJob is a running product on packed operands. All threads together pack a block of B,
// kc by nc; then they divide the rows of C, and each packs its rows of A and computes their
// tiles. If there is only one block of rows, all pack A together, too, and divide the
// columns.
type packedJob struct {
	gemmProduct
	ks *gemmKernels
	at gemmView // A with k as its rows, as packed

	// The current block: columns j to j+nb of C, terms p to p+kb of the sums.
	j, nb, p, kb int
	panels       []rowPanels
	group, parts int // panels of B in a task, and tasks for a set of rows
	packed       *gemmBuffer
	packedA      *gemmBuffer // nil if each thread packs its own rows

	packTask, tileTask func(int)
}

// rowPanels is a range of rows of C, in panels of mr.
type rowPanels struct{ lo, hi int }

var packedJobs = sync.Pool{New: func() any {
	j := new(packedJob)
	j.packTask, j.tileTask = j.packGroup, j.computeRows
	return j
}}

func runPacked(pr *gemmProduct, ks *gemmKernels, p *Pool) {
	j := packedJobs.Get().(*packedJob)
	j.gemmProduct, j.ks, j.at = *pr, ks, pr.a.transposed()
	kc := blockSize(pr.k, ks.kc, 4)
	nc := blockSize(pr.n, ks.nc, ks.nr)
	j.packed = newGemmBuffer(nc / ks.nr * ks.panelStride(ks.nr, kc) * ks.size)
	if p.Threads() > 1 && pr.m <= ks.mc {
		j.packedA = newGemmBuffer(ceilDiv(pr.m, ks.mr) * ks.panelStride(ks.mr, kc) * ks.size)
		j.panels = append(j.panels[:0], rowPanels{0, ceilDiv(pr.m, ks.mr)})
	} else {
		j.splitRows(p.Threads())
	}
	j.zeros = pr.zeros && j.mayTrim(kc)
	for j.j = 0; j.j < pr.n; j.j += nc {
		j.nb = min(nc, pr.n-j.j)
		for j.p = 0; j.p < pr.k; j.p += kc {
			j.kb = min(kc, pr.k-j.p)
			j.runBlock(p)
		}
	}
	j.packed.free()
	if j.packedA != nil {
		j.packedA.free()
	}
	j.gemmProduct, j.at, j.packed, j.packedA = gemmProduct{}, gemmView{}, nil, nil
	packedJobs.Put(j)
}

// splitRows divides the rows into ranges that become smaller towards the end, so that threads of different
// speed finish together.
func (j *packedJob) splitRows(threads int) {
	j.panels = j.panels[:0]
	total, most := ceilDiv(j.m, j.ks.mr), j.ks.mc/j.ks.mr
	if threads == 1 {
		most = blockSize(total, most, 1)
	}
	for lo := 0; lo < total; {
		size := most
		if threads > 1 {
			size = min(most, max(ceilDiv(total-lo, 2*threads), 2))
		}
		hi := min(total, lo+size)
		j.panels = append(j.panels, rowPanels{lo, hi})
		lo = hi
	}
}

// runBlock packs the current block of B and adds its part to C.
func (j *packedJob) runBlock(p *Pool) {
	threads := p.Threads()
	columns := ceilDiv(j.nb, j.ks.nr)
	if threads == 1 {
		j.group, j.parts = columns, 1
		j.packGroup(0)
		j.zeros = j.zeros && j.finiteB()
		for t := range j.panels {
			j.computeRows(t)
		}
		return
	}
	j.group = max(1, columns/(4*threads))
	j.parts = ceilDiv(columns, j.group)
	if j.packedA != nil {
		p.Run(j.parts+ceilDiv(j.panels[0].hi, panelsToPack), j.packTask)
		j.zeros = j.zeros && j.finiteB()
		j.group = max(1, columns/(8*threads))
		j.parts = ceilDiv(columns, j.group)
		p.Run(j.parts, j.tileTask)
		return
	}
	p.Run(j.parts, j.packTask)
	j.zeros = j.zeros && j.finiteB()
	// With few rows the columns are split too, although the same rows of A are then packed more than
	// once.
	j.parts = min(columns, max(1, ceilDiv(3*threads, len(j.panels))))
	j.group = ceilDiv(columns, j.parts)
	j.parts = ceilDiv(columns, j.group)
	p.Run(len(j.panels)*j.parts, j.tileTask)
}

// panelsToPack is the number of panels of A that a task packs for all threads.
const panelsToPack = 4

// packGroup packs a group of panels of B, or, after all of those, of A. Columns are relative to the
// block.
func (j *packedJob) packGroup(t int) {
	ks := j.ks
	if t >= j.parts {
		lo := (t - j.parts) * panelsToPack
		j.packRows(j.panelA(lo), rowPanels{lo, min(lo+panelsToPack, j.panels[0].hi)})
		return
	}
	b := j.b
	b.ptr = b.at(0, j.j)
	lo, hi := t*j.group, min((t+1)*j.group, ceilDiv(j.nb, ks.nr))
	ks.packPanels(j.panelB(lo), &b, ks.spreadB[b.format], gemmPanels{j.p, j.kb, lo, hi, ks.nr, j.nb})
}

func (j *packedJob) panelB(q int) unsafe.Pointer {
	return unsafe.Add(j.packed.ptr, q*j.ks.panelStride(j.ks.nr, j.kb)*j.ks.size)
}

// panelA returns the address of a panel of A that all threads share.
func (j *packedJob) panelA(q int) unsafe.Pointer {
	return unsafe.Add(j.packedA.ptr, q*j.ks.panelStride(j.ks.mr, j.kb)*j.ks.size)
}

func (j *packedJob) packRows(dst unsafe.Pointer, rows rowPanels) {
	ks := j.ks
	ks.packPanels(dst, &j.at, ks.spreadA[j.at.format], gemmPanels{j.p, j.kb, rows.lo, rows.hi, ks.mr, j.m})
}

// computeRows packs a range of rows of A, unless A is packed already, and computes their part of
// C.
func (j *packedJob) computeRows(t int) {
	ks := j.ks
	rows := j.panels[t/j.parts]
	packed := (rows.hi - rows.lo) * ks.panelStride(ks.mr, j.kb) * ks.size
	if j.packedA != nil {
		packed = 0
	}
	buf := newGemmBuffer(packed + ks.mr*ks.nr*ks.size)
	a, totals := buf.ptr, unsafe.Add(buf.ptr, packed)
	if j.packedA != nil {
		a = j.panelA(0)
	} else {
		j.packRows(a, rows)
	}
	first := t % j.parts * j.group
	last := min(first+j.group, ceilDiv(j.nb, ks.nr))
	var terms []termRange
	if j.zeros {
		terms = j.spans(a, rows)
	}
	for q := first; q < last; q++ {
		if terms != nil {
			j.computeTrimmed(a, totals, rows, q, terms)
			continue
		}
		j.computePanel(a, totals, rows, q)
	}
	if j.p+j.kb == j.k {
		row, col := rows.lo*ks.mr, j.j+first*ks.nr
		j.addBias(ks, row, min(rows.hi*ks.mr, j.m)-row, col, min(j.j+last*ks.nr, j.n)-col)
	}
	buf.free()
}

// computePanel computes the tiles of C for a range of rows and one panel of B, and prefetches the next panel,
// a part with each tile.
func (j *packedJob) computePanel(a, totals unsafe.Pointer, rows rowPanels, q int) {
	ks := j.ks
	b, next := j.panelB(q), j.panelB(q+1)
	stepA, stepNext := ks.panelStride(ks.mr, j.kb)*ks.size, nextBytes*j.kb
	ahead := ks.nr * j.kb * ks.size
	if (q+1)*ks.nr >= j.nb {
		ahead = 0
	}
	col := j.j + q*ks.nr
	cols := min(ks.nr, j.n-col)
	update := j.updateAt(j.p)
	for r := rows.lo; r < rows.hi; r++ {
		if ahead -= stepNext; ahead < 0 {
			next = b
		}
		i := r * ks.mr
		ks.tile(j.kb, a, b, j.cAt(i, col, ks.size), next, totals, j.ldc, min(ks.mr, j.m-i), cols, j.alpha, update)
		a, next = unsafe.Add(a, stepA), unsafe.Add(next, stepNext)
	}
}
