package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tileShape returns the rows and the vectors of columns of a tile.
func (t target) tileShape() (rows, vectors int) {
	if t.wide() {
		return 14, 2
	}
	return 4, 3
}

// unroll is the number of terms that an iteration of a tile's loop adds.
const unroll = 4

// tile generates the product of two packed panels, all of it in registers: each
// term broadcasts a column of A element by element against a row of B.
func (t target) tile() {
	t.text("Tile", "k int, a, b, c, next, totals unsafe.Pointer, ldc, rows, cols int, alpha uint64, update "+
		"Update")
	rows, vectors := t.tileShape()
	k := Load(Param("k"), GP64())
	a := Load(Param("a"), GP64())
	b := Load(Param("b"), GP64())
	c := Load(Param("c"), GP64())
	ldc := t.scaled("ldc")
	for i := range rows * vectors {
		t.zero(t.vec(i))
	}
	next := Load(Param("next"), GP64())
	turns := GP64()
	MOVQ(k, turns)
	SHRQ(Imm(uint64(log2(unroll))), turns)
	t.turns("first", tileLoop{turns, a, b, next, c, ldc})
	if t.single() {
		t.chains(tileLoop{turns, a, b, next, nil, nil})
	} else {
		t.turns("other", tileLoop{turns, a, b, next, nil, nil})
	}
	Label("rest")
	ANDQ(Imm(unroll-1), k)
	JZ(LabelRef("finish"))
	Label("single")
	t.term(a, b, 0, func(int) {})
	ADDQ(I32(rows*t.size), a)
	ADDQ(I32(vectors*t.bytes()), b)
	DECQ(k)
	JNZ(LabelRef("single"))
	Label("finish")
	t.writeTile(c, ldc)
}

// chainTurns is the number of iterations that make a chain of sumChain terms.
const chainTurns = 64 / unroll

// chains generates the loop after the first one, in which float32 sums are stored to memory in the last
// iteration of each chain. The first loop made one iteration for each row.
func (t target) chains(l tileLoop) {
	rows, _ := t.tileShape()
	left, totals, begun := GP64(), GP64(), GP64()
	MOVQ(U32(uint32(chainTurns-rows)), left)
	Load(Param("totals"), totals)
	XORQ(begun, begun)
	TESTQ(l.turns, l.turns)
	JZ(LabelRef("rest"))
	Label("other")
	DECQ(left)
	JZ(LabelRef("chainEnd"))
	Label("within")
	t.turn(l, nil)
	DECQ(l.turns)
	JNZ(LabelRef("other"))
	JMP(LabelRef("chainsDone"))
	Label("chainEnd")
	MOVQ(U32(chainTurns), left)
	CMPQ(l.turns, Imm(1)) // the last chain stays in the registers
	JE(LabelRef("within"))
	DECQ(l.turns)
	TESTQ(begun, begun)
	JNZ(LabelRef("chainNext"))
	MOVQ(U32(1), begun)
	t.turn(l, func(sum reg.VecPhysical, i int) {
		t.move(sum, t.total(totals, i))
		t.zero(sum)
	})
	JMP(LabelRef("other"))
	Label("chainNext")
	t.turn(l, func(sum reg.VecPhysical, i int) {
		t.add(t.total(totals, i), sum, sum)
		t.move(sum, t.total(totals, i))
		t.zero(sum)
	})
	JMP(LabelRef("other"))
	Label("chainsDone")
	TESTQ(begun, begun)
	JZ(LabelRef("rest"))
	for i := range t.sums() {
		t.add(t.total(totals, i), t.vec(i), t.vec(i))
	}
}

// sums returns the number of registers that hold the sums of a tile, and total the memory of one of
// them.
func (t target) sums() int {
	rows, vectors := t.tileShape()
	return rows * vectors
}

func (t target) total(totals reg.Register, i int) Mem {
	return Mem{Base: totals, Disp: i * t.bytes()}
}

// term adds one term to every element of the tile, and calls then after each
// row.
func (t target) term(a, b reg.Register, u int, then func(row int)) {
	rows, vectors := t.tileShape()
	rowB := func(j int) reg.VecPhysical { return t.vec(rows*vectors + j) }
	spare := 16 - (rows+1)*vectors
	if t.wide() {
		spare = 32 - (rows+1)*vectors
	}
	for j := range vectors {
		t.move(Mem{Base: b, Disp: (u*vectors + j) * t.bytes()}, rowB(j))
	}
	for i := range rows {
		f := t.vec((rows+1)*vectors + i%spare)
		t.broadcast(Mem{Base: a, Disp: (u*rows + i) * t.size}, f)
		for j := range vectors {
			t.fma(rowB(j), f, t.vec(i*vectors+j))
		}
		then(i)
	}
}

// tileLoop holds the registers of a tile's loop, with those of C if the loop prefetches
// it.
type tileLoop struct{ turns, a, b, next, c, ldc reg.Register }

// turns generates a loop that adds unroll terms an iteration. If the loop prefetches C, each iteration
// prefetches one row, and the loop ends with the last row: prefetching all rows at once would compete with
// the loads of A.
func (t target) turns(label string, l tileLoop) {
	rows, vectors := t.tileShape()
	TESTQ(l.turns, l.turns)
	JZ(LabelRef("rest"))
	p, left := GP64(), GP64()
	if l.c != nil {
		MOVQ(l.c, p)
		MOVQ(U32(rows), left)
	}
	Label(label)
	if l.c != nil {
		for off := 0; off < vectors*t.bytes(); off += 64 {
			PREFETCHT1(Mem{Base: p, Disp: off})
		}
		PREFETCHT1(Mem{Base: p, Disp: vectors*t.bytes() - 1})
		ADDQ(l.ldc, p)
	}
	t.turn(l, nil)
	DECQ(l.turns)
	if l.c == nil {
		JNZ(LabelRef(label))
		return
	}
	JZ(LabelRef("rest"))
	DECQ(left)
	JNZ(LabelRef(label))
}

// turn generates one iteration of a loop: unroll terms, and a prefetch of a line of what is next. If a chain
// ends with it, end is called for each sum after its last term, while the multiply-adds of the rows below
// continue.
func (t target) turn(l tileLoop, end func(sum reg.VecPhysical, i int)) {
	rows, vectors := t.tileShape()
	PREFETCHT1(Mem{Base: l.next})
	ADDQ(Imm(64), l.next)
	for u := range unroll {
		t.term(l.a, l.b, u, func(row int) {
			if end == nil || u+1 < unroll {
				return
			}
			for i := row * vectors; i < (row+1)*vectors; i++ {
				end(t.vec(i), i)
			}
		})
	}
	ADDQ(I32(unroll*rows*t.size), l.a)
	ADDQ(I32(unroll*vectors*t.bytes()), l.b)
}

// writeTile writes the sums row by row, up to the last row of C.
func (t target) writeTile(c, ldc reg.Register) {
	rows, vectors := t.tileShape()
	left := Load(Param("rows"), GP64())
	cols := Load(Param("cols"), GP64())
	scale := rows * vectors
	t.broadcastScale(t.vec(scale))
	update := Load(Param("update"), GP8())
	masks := t.masks(cols, vectors)
	TESTB(update, update)
	JNZ(LabelRef("accumulate"))
	w := writer{t, c, ldc, left, masks, scale, wholeVector}
	if t.wide() {
		w.rows("put", rows, vectors, overwriteMasked)
		Label("accumulate")
		w.rows("add", rows, vectors, accumulateMasked)
		return
	}
	full := Imm(uint64(vectors * t.lanes))
	CMPQ(cols, full)
	JNE(LabelRef("overwriteEdge"))
	w.rows("put", rows, vectors, overwriteFull)
	Label("overwriteEdge")
	w.rows("putEdge", rows, vectors, overwriteMasked)
	Label("accumulate")
	CMPQ(cols, full)
	JNE(LabelRef("accumulateEdge"))
	w.rows("add", rows, vectors, accumulateFull)
	Label("accumulateEdge")
	w.rows("addEdge", rows, vectors, accumulateMasked)
}

// writer writes sums in vector registers from 0 on to rows of C.
type writer struct {
	target
	c, ldc, left, masks reg.Register
	scale               int // the register of the scale
	// part returns a register as vector j of a row of the given number of vectors.
	part func(v reg.VecPhysical, j, vectors int) reg.VecPhysical
}

func wholeVector(v reg.VecPhysical, _, _ int) reg.VecPhysical { return v }

// writing is one way to write a vector of sums.
type writing int

const (
	overwriteFull writing = iota
	overwriteMasked
	accumulateFull
	accumulateMasked
)

// rows writes up to the given number of rows and returns from the kernel.
func (w writer) rows(label string, rows, vectors int, how writing) {
	for i := range rows {
		w.row(i, vectors, how)
		if i+1 == rows {
			break
		}
		DECQ(w.left)
		JZ(LabelRef(label + "Done"))
		ADDQ(w.ldc, w.c)
	}
	Label(label + "Done")
	VZEROUPPER()
	RET()
}

// row writes one row. The two registers after the scale are free.
func (w writer) row(i, vectors int, how writing) {
	for j := range vectors {
		part := func(k int) reg.VecPhysical { return w.part(w.vec(k), j, vectors) }
		scale, tmp, old, sum := part(w.scale), part(w.scale+1), part(w.scale+2), part(i*vectors+j)
		m := Mem{Base: w.c, Disp: j * w.bytes()}
		switch how {
		case overwriteFull, overwriteMasked:
			w.mul(scale, sum, sum)
		case accumulateFull:
			w.scaleAdd(m, scale, sum)
		case accumulateMasked:
			w.loadMasked(m, w.masks, j, tmp, old)
			w.scaleAdd(old, scale, sum)
		}
		if how == overwriteFull || how == accumulateFull {
			w.move(sum, m)
			continue
		}
		w.storeMasked(sum, w.masks, j, tmp, m)
	}
}
