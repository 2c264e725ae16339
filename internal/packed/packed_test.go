package packed_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
)

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// TestMultiply: products of any size are those of the definition, in every format, and a row's bits are those
// that it has alone, on one thread and on three.
func TestMultiply(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pool := kernel.NewPool(3)
	defer pool.Close()
	for _, c := range []struct{ out, in, rows int }{{1, 1, 1}, {70, 33, 5}, {64, 300, 7}, {129, 128, 2},
		{1000, 520, 9}, {130, 260, 103}} {
		w, x := random(r, c.out*c.in), random(r, c.rows*c.in)
		for _, f := range packed.Formats() {
			p, err := packed.Pack(f, packed.Rows(array.FromSlice(w, c.out, c.in)))
			if err != nil {
				t.Fatal(err)
			}
			y, one := make([]float32, c.rows*c.out), make([]float32, c.out)
			p.Multiply(pool, y, x, c.rows)
			for i := range c.rows {
				p.Multiply(nil, one, x[i*c.in:(i+1)*c.in], 1)
				for j, got := range one {
					if math.Float32bits(got) != math.Float32bits(y[i*c.out+j]) {
						t.Fatalf("%v %s: element %d,%d alone: got %v, want %v", c, f, i, j, got, y[i*c.out+j])
					}
					want, size := 0.0, 1.0
					for k := range c.in {
						want += float64(x[i*c.in+k]) * float64(w[j*c.in+k])
						size += math.Abs(float64(x[i*c.in+k]) * float64(w[j*c.in+k]))
					}
					limit := map[packed.Format]float64{packed.F32: 1e-6, packed.BF16: 4e-3, packed.Int8: 2e-2,
						packed.Int4: 0.16}[f]
					if math.Abs(float64(got)-want) > limit*size {
						t.Fatalf("%v %s: element %d,%d: got %v, want %v", c, f, i, j, got, want)
					}
				}
			}
		}
	}
}

// TestSources: a matrix that is stored the other way round, and two that become one, are the same weight.
func TestSources(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const out, in = 75, 20
	w := random(r, out*in)
	turned := make([]float32, out*in)
	for j := range out {
		for k := range in {
			turned[k*out+j] = w[j*in+k]
		}
	}
	whole := array.FromSlice(w, out, in)
	for name, s := range map[string]packed.Source{
		"transposed": packed.Columns(array.FromSlice(turned, in, out)),
		"parts":      packed.Rows(whole.Rows(0, 30), whole.Rows(30, out)),
	} {
		p, err := packed.Pack(packed.Auto, s)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]float32, in)
		for j := range out {
			p.Row(row, j)
			for k, got := range row {
				if got != w[j*in+k] {
					t.Fatalf("%s: row %d, element %d: got %v, want %v", name, j, k, got, w[j*in+k])
				}
			}
		}
	}
	if _, err := packed.Pack("int3", packed.Rows(whole)); err == nil {
		t.Error("int3: got no error")
	}
	if _, err := packed.Pack(packed.F32, packed.Rows(whole, array.New(array.F32, 3, in+1))); err == nil {
		t.Error("matrices of unlike width: got no error")
	}
}

// TestGrouped: matrices of integers with zero points, in another order of columns, and unlike ones together
// mean what they meant before, and their products are those of that.
func TestGrouped(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const in, rows = 200, 3
	zeros := integers(r, quant.Matrix{Out: 21, In: in, Group: 64, Bits: 4, Zeros: make([]byte, 21*4)})
	ordered := integers(r, quant.Matrix{Out: 16, In: in, Group: 32, Bits: 8, Order: make([]int32, in)})
	for i, p := range r.Perm(in) {
		ordered.Order[i] = int32(p)
	}
	plain := integers(r, quant.Matrix{Out: 5, In: in, Group: 64, Bits: 4})
	w, err := packed.Grouped(zeros, zeros, ordered, plain)
	if err != nil {
		t.Fatal(err)
	}
	var want []float32
	for _, m := range []quant.Matrix{zeros, zeros, ordered, plain} {
		want = append(want, m.Floats()...)
	}
	row, x, y := make([]float32, in), random(r, rows*in), make([]float32, rows*w.Out())
	w.Multiply(nil, y, x, rows)
	for j := range w.Out() {
		w.Row(row, j)
		for i := range rows {
			sum, size := 0.0, 0.0
			for k, v := range row {
				if v != want[j*in+k] {
					t.Fatalf("row %d, element %d: got %v, want %v", j, k, v, want[j*in+k])
				}
				sum += float64(v) * float64(x[i*in+k])
				size += math.Abs(float64(v))
			}
			if got := float64(y[i*w.Out()+j]); math.Abs(got-sum) > size*0.015 {
				t.Fatalf("product %d, %d: got %v, want %v", i, j, got, sum)
			}
		}
	}
	if _, err := packed.Grouped(plain, quant.Matrix{Out: 1, In: 1, Group: 32, Bits: 8}); err == nil {
		t.Error("matrices of unlike width: got no error")
	}
	plain.Bits = 5
	if _, err := packed.Grouped(plain); err == nil {
		t.Error("5 bits: got no error")
	}
}

// integers fills a matrix.
func integers(r *rand.Rand, m quant.Matrix) quant.Matrix {
	m.Values, m.Scales = make([]byte, m.Out*m.In), make([]float32, m.Out*m.Groups())
	for i := range m.Values {
		m.Values[i] = byte(r.IntN(1 << m.Bits))
	}
	for i := range m.Scales {
		m.Scales[i] = quant.BF16Scale(float32(r.NormFloat64()) / 100)
	}
	for i := range m.Zeros {
		m.Zeros[i] = byte(r.IntN(1<<m.Bits + 1))
	}
	return m
}
