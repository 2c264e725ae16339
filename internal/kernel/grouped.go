package kernel

//go:generate go -C gen run ./grouped -out ../grouped_amd64.s -stubs ../grouped_stubs_amd64.go -pkg kernel

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Grouped is a product with weights of 8 or 4 bits. A group of Group consecutive terms has one scale in a row
// of weights and one in a row of activations, which have 8 bits. The sum of a group is in integers; groups
// are added in order, so a row's result does not depend on other rows, nor on the processor:
//
//	sum = 0; for g from 0 to Groups: n = Σ (w-zero)·x in integers; sum = fma(float(n)·xscale, wscale, sum)
//	y[i*LDY+j] = sum
//
// Weights are in panels of GroupedRows rows: four terms of each row in turn, then the next four; with 4 bits
// a byte holds a term and the one four further on, the first in its low bits.
type Grouped struct {
	Rows, Groups, Group, Bits int
	LDY                       int
}

// GroupedRows is the number of weight rows in a panel.
const GroupedRows = 16

// The length of a group is a multiple of GroupedUnit and at most GroupedMost.
const (
	GroupedUnit = 32
	GroupedMost = 128
)

// record is the bytes after a group of activations: its scale, and the sum of its terms, multiplied by the
// zero point if that is fixed.
const record = 8

// groupedFunc computes rows of one panel, groupedRound rounds activations.
type (
	groupedFunc    func(groups, steps int, y *float32, ldy int, x *uint8, ldx int, w *uint8, s *uint16, z *uint8)
	groupedLargest func(groups, steps int, bits *uint32, x *float32)
	groupedRound   func(groups, steps int, dst *uint8, x, factors *float32)
)

// groupedSet is the kernels for one instruction set: for 8 and 4 bits, without and with zero points, by the
// number of rows minus one.
type groupedSet struct {
	name    string
	product [2][2][]groupedFunc
	largest groupedLargest
	round   groupedRound
}

// groupedSets lists the sets that this processor can run, the best first.
var groupedSets = append(groupedAsmSets(), groupedSet{name: "plain"})

// Stride returns the bytes of a row of activations.
func (g Grouped) Stride() int { return g.Groups * (g.Group + record) }

// PanelBytes returns the bytes of a panel's weights.
func (g Grouped) PanelBytes() int { return g.Groups * g.Group * GroupedRows * g.Bits / 8 }

func (g Grouped) check(zeros bool) {
	if g.Rows < 0 || g.Groups < 0 || g.Group <= 0 || g.Group%GroupedUnit != 0 || g.Group > GroupedMost ||
		g.Bits != 8 && g.Bits != 4 {
		panic(fmt.Sprintf("kernel: grouped product %+v, zeros %v", g, zeros))
	}
}

// Multiply sets y to the products of rows of activations, made by Activations, and one panel. zeros is nil if
// the zero point is the middle of the range.
func (g Grouped) Multiply(y []float32, x, w []byte, scales []uint16, zeros []byte) {
	g.multiply(&groupedSets[0], y, x, w, scales, zeros)
}

func (g Grouped) multiply(set *groupedSet, y []float32, x, w []byte, scales []uint16, zeros []byte) {
	g.check(zeros != nil)
	if g.Rows == 0 || g.Groups == 0 {
		return
	}
	n := g.Groups * GroupedRows
	w, scales = w[:g.PanelBytes()], scales[:n]
	x, y = x[:g.Rows*g.Stride()], y[:(g.Rows-1)*g.LDY+GroupedRows]
	var z *byte
	list := set.product[g.kind()][0]
	if zeros != nil {
		z, list = &zeros[:n][0], set.product[g.kind()][1]
	}
	if list == nil {
		g.plain(y, x, w, scales, zeros)
		return
	}
	for i := 0; i < g.Rows; {
		rows := min(len(list), g.Rows-i)
		list[rows-1](g.Groups, g.Group*g.Bits/128, &y[i*g.LDY], g.LDY, &x[i*g.Stride()], g.Stride(), &w[0],
			&scales[0], z)
		i += rows
	}
}

func (g Grouped) kind() int { return 1 - g.Bits/8 }

// plain is the reference implementation.
func (g Grouped) plain(y []float32, x, w []byte, scales []uint16, zeros []byte) {
	for i := range g.Rows {
		row := x[i*g.Stride() : (i+1)*g.Stride()]
		for j := range GroupedRows {
			sum := float32(0)
			for q := range g.Groups {
				at := q * (g.Group + record)
				n := int32(binary.LittleEndian.Uint32(row[at+g.Group+4:]))
				if zeros != nil {
					n *= int32(zeros[q*GroupedRows+j])
				}
				for p := range g.Group {
					n += int32(g.Weight(w, j, q*g.Group+p)) * int32(int8(row[at+p]))
				}
				scale := math.Float32frombits(binary.LittleEndian.Uint32(row[at+g.Group:]))
				sum = fma32(float32(float32(n)*scale), F16ToF32(scales[q*GroupedRows+j]), sum)
			}
			y[i*g.LDY+j] = sum
		}
	}
}

// place returns the byte of a panel that holds term p of row j, and its shift.
func (g Grouped) place(j, p int) (at, shift int) {
	if g.Bits == 8 {
		return (p/4*GroupedRows+j)*4 + p%4, 0
	}
	return (p/8*GroupedRows+j)*4 + p%4, p / 4 % 2 * 4
}

// Weight returns a weight of a panel as stored.
func (g Grouped) Weight(panel []byte, j, p int) byte {
	at, shift := g.place(j, p)
	return panel[at] >> shift & byte(1<<g.Bits-1)
}

// SetWeight stores a weight; the bits must be 0 before.
func (g Grouped) SetWeight(panel []byte, j, p int, v byte) {
	at, shift := g.place(j, p)
	panel[at] |= v << shift
}
