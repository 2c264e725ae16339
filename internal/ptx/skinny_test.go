package ptx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
)

// integers returns random bytes, and what they mean: weights of bf16 in groups, each with a scale.
func integers8or4(r *rand.Rand, bits, group, rows, depth int) (q, scale, means array.Array) {
	q, scale = array.New(array.U8, rows, depth*bits/8), array.New(array.BF16, rows, depth/group)
	means = array.New(array.BF16, rows, depth)
	for i := range scale.Len() {
		scale.Set(i, float64(1+r.IntN(8))/8)
	}
	data := array.Data[uint8](q)
	for i := range data {
		data[i] = uint8(r.IntN(256))
	}
	for i := range means.Len() {
		x := int(data[i*bits/8])
		if bits == 4 {
			x = x >> (i % 2 * 4) & 15
		}
		means.Set(i, float64(x-1<<(bits-1))*scale.At(i/group))
	}
	return q, scale, means
}

// TestSkinnyProduct: a few rows times weights of each kind, several of them in one kernel, are what the
// definition says.
func TestSkinnyProduct(t *testing.T) {
	for _, q := range []SkinnyProduct{
		{Rows: 1, Depth: 32, Cols: []int{16}, Bits: 16},
		{Rows: 3, Depth: 192, Cols: []int{32, 16, 48}, Bits: 16},
		{Rows: 8, Depth: 1152, Cols: []int{16, 16}, Bits: 16},
		{Rows: 11, Depth: 160, Cols: []int{48}, Bits: 16},
		{Rows: 16, Depth: 128, Cols: []int{32}, Bits: 16, Group: 0},
		{Rows: 2, Depth: 256, Cols: []int{32, 32}, Bits: 16, Gated: true},
		{Rows: 1, Depth: 128, Cols: []int{16, 32}, Bits: 8, Group: 32},
		{Rows: 5, Depth: 768, Cols: []int{16}, Bits: 8, Group: 128},
		{Rows: 9, Depth: 64, Cols: []int{16, 16}, Bits: 8, Group: 16, Gated: true},
		{Rows: 1, Depth: 128, Cols: []int{16}, Bits: 4, Group: 32},
		{Rows: 4, Depth: 2560, Cols: []int{32, 16}, Bits: 4, Group: 64},
		{Rows: 1, Depth: 512, Cols: []int{32, 32}, Bits: 4, Group: 128, Gated: true},
		{Rows: 16, Depth: 1152, Cols: []int{16}, Bits: 16},          // more rows than the block's memory is for
		{Rows: 1, Depth: 512, Cols: []int{16}, Bits: 8, Group: 256}, // scales of 2 bytes in a round
	} {
		t.Run(fmt.Sprintf("%+v", q), func(t *testing.T) {
			if !q.Fits() {
				t.Fatal("does not fit")
			}
			checkSkinny(t, q)
		})
	}
}

func checkSkinny(t *testing.T, q SkinnyProduct) {
	r := rand.New(rand.NewPCG(7, 8))
	x := eighths(r, q.Rows, q.Depth)
	arrays := []array.Array{x}
	var products [][][]float64
	for _, n := range q.Cols {
		w := eighths(r, n, q.Depth)
		if q.Bits == 16 {
			arrays = append(arrays, w)
		} else {
			var bytes, scale array.Array
			bytes, scale, w = integers8or4(r, q.Bits, q.Group, n, q.Depth)
			arrays = append(arrays, bytes, scale)
		}
		products = append(products, sums(x, w, false))
	}
	first := len(arrays)
	var want []array.Array
	for i, p := range products {
		if q.Gated && i == 1 {
			continue
		}
		arrays = append(arrays, blank(q.Rows, q.Cols[i]))
		a := blank(q.Rows, q.Cols[i])
		for m, row := range p {
			for n, y := range row {
				if q.Gated {
					y *= sigmoid(y) * products[1][m][n]
				}
				a.Set(m*q.Cols[i]+n, y)
			}
		}
		want = append(want, a)
	}
	if err := Run(q.Kernel(), arrays); err != nil {
		t.Fatal(err)
	}
	if err := differ(arrays[first:], want); err != nil {
		t.Error(err)
	}
}

// TestSkinnyFits: what no kernel computes is not taken for something that one does.
func TestSkinnyFits(t *testing.T) {
	for _, q := range []SkinnyProduct{
		{Rows: 0, Depth: 32, Cols: []int{16}, Bits: 16}, {Rows: 17, Depth: 32, Cols: []int{16}, Bits: 16},
		{Rows: 1, Depth: 40, Cols: []int{16}, Bits: 16}, {Rows: 1, Depth: 32, Cols: []int{20}, Bits: 16},
		{Rows: 1, Depth: 32, Cols: []int{16, 32}, Bits: 16, Gated: true}, {Rows: 1, Depth: 32, Bits: 16},
		{Rows: 1, Depth: 64, Cols: []int{16}, Bits: 8, Group: 24}, {Rows: 1, Depth: 128, Cols: []int{16}, Bits: 4,
			Group: 16}, {Rows: 1, Depth: math.MaxInt32, Cols: []int{16}, Bits: 16},
	} {
		if q.Fits() {
			t.Errorf("%+v fits", q)
		}
	}
}
