package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// groupedCase is operands of a grouped product, with weights at the ends of their range among them.
type groupedCase struct {
	Grouped
	x             []float32
	w, zeros      []byte
	scales        []uint16
	withZeroPoint bool
}

func newGroupedCase(r *rand.Rand, bits, group, groups, rows, in int, zeros bool) *groupedCase {
	g := Grouped{Rows: rows, Groups: groups, Group: group, Bits: bits, LDY: 19}
	c := &groupedCase{Grouped: g, withZeroPoint: zeros}
	c.x = normals(r, rows*in)
	c.w = make([]byte, c.PanelBytes())
	for i := range c.w {
		c.w[i] = []byte{0, 255, byte(r.Uint32())}[min(2, r.IntN(5))]
	}
	c.scales = make([]uint16, groups*GroupedRows)
	for i := range c.scales {
		c.scales[i] = F32ToF16(float32(math.Exp(r.NormFloat64())) / 500)
	}
	if zeros {
		c.zeros = make([]byte, len(c.scales))
		for i := range c.zeros {
			c.zeros[i] = byte(r.IntN(1<<bits + 1))
		}
	}
	return c
}

func (c *groupedCase) activations(set *groupedSet, factor float32) []byte {
	in := len(c.x) / c.Rows
	x := make([]byte, c.Rows*c.Stride())
	for i := range c.Rows {
		c.Grouped.activations(set, x[i*c.Stride():], c.x[i*in:(i+1)*in], c.withZeroPoint, factor)
	}
	return x
}

func groupedCases() []*groupedCase {
	r := rand.New(rand.NewPCG(8, 4))
	var list []*groupedCase
	for _, bits := range []int{8, 4} {
		for _, zeros := range []bool{false, true} {
			list = append(list, newGroupedCase(r, bits, 32, 1, 1, 32, zeros),
				newGroupedCase(r, bits, 64, 3, 5, 150, zeros), newGroupedCase(r, bits, 128, 2, 21, 256, zeros),
				newGroupedCase(r, bits, 32, 70, 4, 70*32-5, zeros))
		}
	}
	return list
}

// TestGroupedBits: every set gives the bits of the definition, and a row those that it has alone.
func TestGroupedBits(t *testing.T) {
	for _, c := range groupedCases() {
		plain := &groupedSet{}
		x := c.activations(plain, 0.25)
		want := make([]float32, c.Rows*c.LDY)
		c.multiply(plain, want, x, c.w, c.scales, c.zeros)
		for i := range groupedSets {
			set := &groupedSets[i]
			name := fmt.Sprintf("%s %+v zeros %v", set.name, c.Grouped, c.zeros != nil)
			if !bytes.Equal(c.activations(set, 0.25), x) {
				t.Fatalf("%s: activations differ from the definition's", name)
			}
			got := make([]float32, c.Rows*c.LDY)
			c.multiply(set, got, x, c.w, c.scales, c.zeros)
			wantBits(t, name, got, want)
			one := c.Grouped
			one.Rows = 1
			for row := range c.Rows {
				one.multiply(set, got[row*c.LDY:], x[row*c.Stride():], c.w, c.scales, c.zeros)
			}
			wantBits(t, name+" one by one", got, want)
		}
	}
}

// TestGroupedDefinition: the definition is near the product of what the operands mean.
func TestGroupedDefinition(t *testing.T) {
	for _, c := range groupedCases() {
		x, y := c.activations(&groupedSet{}, 1), make([]float32, c.Rows*c.LDY)
		c.multiply(&groupedSet{}, y, x, c.w, c.scales, c.zeros)
		in := len(c.x) / c.Rows
		for i := range c.Rows {
			for j := range GroupedRows {
				want, limit := 0.0, 1e-6
				for q := range c.Groups {
					top, size := 0.0, 0.0
					for p := q * c.Group; p < min(in, (q+1)*c.Group); p++ {
						zero := float64(int(1) << (c.Bits - 1))
						if c.zeros != nil {
							zero = float64(c.zeros[q*GroupedRows+j])
						}
						w := (float64(c.Weight(c.w, j, p)) - zero) * float64(F16ToF32(c.scales[q*GroupedRows+j]))
						want += w * float64(c.x[i*in+p])
						top, size = max(top, math.Abs(float64(c.x[i*in+p]))), size+math.Abs(w)
					}
					limit += top / 127 * size * 0.51
				}
				if d := math.Abs(float64(y[i*c.LDY+j]) - want); d > limit {
					t.Fatalf("%+v: element %d, %d: got %v, want %v", c.Grouped, i, j, y[i*c.LDY+j], want)
				}
			}
		}
	}
}

// TestGroupedExtremes: nothing finite comes of what is not, and what is too small to round is 0.
func TestGroupedExtremes(t *testing.T) {
	g := Grouped{Rows: 1, Groups: 2, Group: 32, Bits: 8, LDY: 16}
	w, scales := make([]byte, g.PanelBytes()), make([]uint16, 32)
	for i := range scales {
		scales[i] = F32ToF16(1)
	}
	for i := range groupedSets {
		for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e-40} {
			x, y, row := make([]byte, g.Stride()), make([]float32, 16), make([]float32, 64)
			row[37] = v
			g.activations(&groupedSets[i], x, row, false, 1)
			g.multiply(&groupedSets[i], y, x, w, scales, nil)
			if y[3] == y[3] && (v != 1e-40 || y[3] != 0) {
				t.Errorf("%s: %v becomes %v", groupedSets[i].name, v, y[3])
			}
		}
	}
}

func BenchmarkGrouped(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range groupedSets[:len(groupedSets)-1] {
		set := &groupedSets[i]
		for _, bits := range []int{8, 4} {
			for _, rows := range []int{1, 8} {
				c := newGroupedCase(r, bits, 32, 64, rows, 2048, false)
				x, y := c.activations(set, 1), make([]float32, rows*c.LDY)
				b.Run(fmt.Sprintf("%s/int%d/rows%d", set.name, bits, rows), func(b *testing.B) {
					for b.Loop() {
						c.multiply(set, y, x, c.w, c.scales, nil)
					}
					b.ReportMetric(float64(rows*2048*16)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
				})
			}
		}
	}
}
