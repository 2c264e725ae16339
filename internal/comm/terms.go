package comm

import "github.com/galley-ml/galley/array"

// Reduction is a reduction whose operands are in several processes. Its tree is that of all reductions: each
// process combines the subtrees that it holds, and joining these gives the same bits.
type Reduction struct {
	// Len is the number of elements of the result.
	Len int
	// Slot is the member that gets the result; -1 if all do.
	Slot int

	job *reduction
}

// Term is a largest subtree of the tree over positions all of whose leaves are in one process.
type Term struct{ From, To, Process int }

// leaves returns how many members a term combines.
func (t Term) leaves() int { return t.To - t.From }

// Terms returns the largest one-process subtrees of a tree over members in the given processes, in order.
func Terms(owner []int) []Term { return appendTerms(nil, owner, 0, len(owner)) }

func appendTerms(list []Term, owner []int, from, to int) []Term {
	for _, p := range owner[from:to] {
		if p != owner[from] {
			mid := treeMiddle(from, to)
			return appendTerms(appendTerms(list, owner, from, mid), owner, mid, to)
		}
	}
	return append(list, Term{from, to, owner[from]})
}

// ElementBytes returns the size of one element of the operands.
func (r *Reduction) ElementBytes() int { return r.job.dtype.Size() }

// TermBytes returns the bytes of n elements of a term as it is sent: combined 16-bit floats are sent as
// float32, so that they are rounded once.
func (r *Reduction) TermBytes(t Term, n int) int {
	if size := r.job.dtype.Size(); t.leaves() == 1 || !r.half() {
		return n * size
	}
	return n * array.F32.Size()
}

func (r *Reduction) half() bool { return r.job.dtype == array.BF16 || r.job.dtype == array.F16 }

// Direct returns the memory of elements lo to hi of a term that is one member's operand, if contiguous.
func (r *Reduction) Direct(t Term, lo, hi int) ([]byte, bool) {
	from, ok := r.job.at.contiguous(lo, hi)
	if !ok || t.leaves() > 1 {
		return nil, false
	}
	size := r.job.dtype.Size()
	return r.job.ins[t.From].Bytes()[from*size : (from+hi-lo)*size], true
}

// Term combines elements lo to hi of a term of this process into dst, which has TermBytes.
func (r *Reduction) Term(mem *Scratch, t Term, lo, hi int, dst []byte) {
	job := *r.job
	if t.leaves() == 1 {
		size := job.dtype.Size()
		in := job.ins[t.From].Bytes()
		job.at.runs(lo, hi, func(at, from, n int) { copy(dst[at*size:(at+n)*size], in[from*size:]) })
		return
	}
	job.from, job.to, job.base, job.partial = t.From, t.To, lo, true
	job.outs = []array.Array{array.View(array.U8, array.Shape{len(dst)}, dst)}
	job.do(mem, lo, hi)
}

// Arrived is elements of a term received from another process, from position Lo of the result on. Data is
// aligned for any element type.
type Arrived struct {
	Term Term
	Lo   int
	Data []byte
}

// Join combines elements lo to hi of the result from this process's operands and the received terms.
func (r *Reduction) Join(mem *Scratch, lo, hi int, arrived []Arrived) {
	job := *r.job
	job.given = make([]given, len(arrived))
	for i, a := range arrived {
		job.given[i] = given{a.Term.From, a.Term.To, a.Lo, a.Data}
	}
	job.do(mem, lo, hi)
}

// Result returns the memory of elements lo to hi of the first result of this process.
func (r *Reduction) Result(lo, hi int) []byte {
	size := r.job.dtype.Size()
	return r.job.outs[0].Bytes()[lo*size : hi*size]
}

// Spread copies elements lo to hi of the first result of this process to its other results.
func (r *Reduction) Spread(lo, hi int) {
	first, size := r.Result(lo, hi), r.job.dtype.Size()
	for _, out := range r.job.outs[1:] {
		copy(out.Bytes()[lo*size:], first)
	}
}
