package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// columnVectors is the number of column vectors that one pass over the rows adds.
const columnVectors = 4

// columns passes over the rows once for every group of columnVectors vectors, then once for every remaining
// vector.
func (s isa) columns(streams map[string]reg.GPVirtual, n reg.GPVirtual, rows, stride reg.Register) {
	chunk := columnVectors * s.width
	SUBQ(operand.I32(chunk), n)
	JL(operand.LabelRef("narrow"))
	Label("wide")
	var group []step
	for u := range columnVectors {
		group = append(group, step{isa: s, lane: u, streams: streams})
	}
	s.walk("wideRow", group, rows, stride)
	s.advance(streams, chunk)
	SUBQ(operand.I32(chunk), n)
	JGE(operand.LabelRef("wide"))
	Label("narrow")
	ADDQ(operand.I32(chunk), n)
	JZ(operand.LabelRef("done"))
	Label("rest")
	t := step{isa: s, streams: streams, partial: true}
	t.mask(n)
	s.walk("restRow", []step{t}, rows, stride)
	s.advance(streams, s.width)
	SUBQ(operand.I32(s.width), n)
	JG(operand.LabelRef("rest"))
	Label("done")
}

// walk adds the rows of one group of columns to dst.
func (s isa) walk(label string, group []step, rows, stride reg.Register) {
	acc := s.sums(len(group))
	row, left := GP64(), GP64()
	MOVQ(group[0].streams["src"], row)
	MOVQ(rows, left)
	Label(label)
	for i, t := range group {
		t.streams = map[string]reg.GPVirtual{"row": row.(reg.GPVirtual)}
		VADDPS(t.in("row"), acc[i], acc[i])
	}
	ADDQ(stride, row)
	DECQ(left)
	JNZ(operand.LabelRef(label))
	for i, t := range group {
		t.out("dst", s.add(acc[i], t.in("dst")))
	}
}
