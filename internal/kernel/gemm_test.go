package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// gemmCase is a product to be checked, with spare elements in every row.
type gemmCase struct {
	m, n, k          int
	ta, tb           Trans
	padA, padB, padC int
	update           Update
	alpha            float64
	formatA, formatB gemmFormat
}

func (c gemmCase) String() string {
	return fmt.Sprintf("%d×%d×%d ta=%d tb=%d fmt=%d,%d update=%d", c.m, c.n, c.k, c.ta, c.tb, c.formatA,
		c.formatB, c.update)
}

// testMatrix is a stored operand in two precisions.
type testMatrix[T Float] struct {
	operand Operand[T]
	values  []float64 // op of the operand, rows by cols without gaps
}

func newTestMatrix[T Float](r *rand.Rand, rows, cols, pad int, trans Trans, format gemmFormat) testMatrix[T] {
	sr, sc := rows, cols
	if trans == Transpose {
		sr, sc = cols, rows
	}
	ld := sc + pad
	data, half := make([]T, sr*ld), make([]uint16, sr*ld)
	for i := range data {
		data[i] = T(r.Float64()*2 - 1)
		half[i] = testNarrow(float32(data[i]), format)
		if format != formatNative {
			data[i] = T(testWiden(half[i], format))
		}
	}
	m := testMatrix[T]{values: make([]float64, rows*cols)}
	for i := range rows {
		for j := range cols {
			if trans == Transpose {
				m.values[i*cols+j] = float64(data[j*ld+i])
			} else {
				m.values[i*cols+j] = float64(data[i*ld+j])
			}
		}
	}
	m.operand = Dense(data, ld, trans)
	if o, ok := any(&m.operand).(*Operand[float32]); ok && format == formatBF16 {
		*o = DenseBF16(half, ld, trans)
	} else if ok && format == formatF16 {
		*o = DenseF16(half, ld, trans)
	}
	return m
}

func testNarrow(f float32, format gemmFormat) uint16 {
	if format == formatBF16 {
		return F32ToBF16(f)
	}
	return F32ToF16(f)
}

func testWiden(h uint16, format gemmFormat) float32 {
	if format == formatBF16 {
		return BF16ToF32(h)
	}
	return F16ToF32(h)
}

// checkGemm compares a product with a plain loop in float64, and the elements
// between the rows of C with what they were.
func checkGemm[T Float](t *testing.T, set *gemmSet, p *Pool, c gemmCase) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(c.m), uint64(c.n*1000+c.k)))
	a := newTestMatrix[T](r, c.m, c.k, c.padA, c.ta, c.formatA)
	b := newTestMatrix[T](r, c.k, c.n, c.padB, c.tb, c.formatB)
	ldc := c.n + c.padC
	got := make([]T, c.m*ldc)
	for i := range got {
		got[i] = T(r.Float64())
	}
	want := wantGemm(c, a.values, b.values, got, ldc)
	Gemm[T]{M: c.m, N: c.n, K: c.k, A: a.operand, B: b.operand, C: got, LDC: ldc,
		Alpha: T(c.alpha), Update: c.update}.runOn(set, p)
	eps := 1e-6
	if any(*new(T)) == any(float64(0)) {
		eps = 1e-15
	}
	for i := range got {
		if diff := math.Abs(float64(got[i]) - want[i]); !(diff <= eps*float64(c.k+8)) {
			t.Fatalf("%s: %v: C[%d,%d] = %v, want %v", set.name, c, i/max(ldc, 1), i%max(ldc, 1), got[i], want[i])
		}
	}
}

func wantGemm[T Float](c gemmCase, a, b []float64, old []T, ldc int) []float64 {
	want := make([]float64, len(old))
	alpha := c.alpha
	if alpha == 0 {
		alpha = 1
	}
	for i := range want {
		want[i] = float64(old[i])
	}
	for i := range c.m {
		row := make([]float64, c.n)
		for p := range c.k {
			f := a[i*c.k+p]
			for j, v := range b[p*c.n:][:c.n] {
				row[j] += f * v
			}
		}
		for j, v := range row {
			if c.update == Overwrite {
				want[i*ldc+j] = 0
			}
			want[i*ldc+j] += alpha * v
		}
	}
	return want
}

// eachSet runs a test for every set of kernels of this processor.
func eachSet(t *testing.T, f func(t *testing.T, set *gemmSet)) {
	for i := range gemmSets {
		t.Run(gemmSets[i].name, func(t *testing.T) { f(t, &gemmSets[i]) })
	}
}

var gemmSizes = []int{0, 1, 2, 3, 5, 7, 13, 17, 31, 33, 63, 65, 100, 130, 257}

// sizesNear draws triples of sizes that meet every size in every place.
func sizesNear(r *rand.Rand, visit func(m, n, k int)) {
	for range 4 {
		ms, ns, ks := r.Perm(len(gemmSizes)), r.Perm(len(gemmSizes)), r.Perm(len(gemmSizes))
		for i := range ms {
			visit(gemmSizes[ms[i]], gemmSizes[ns[i]], gemmSizes[ks[i]])
		}
	}
}

func TestGemm(t *testing.T) {
	eachSet(t, func(t *testing.T, set *gemmSet) {
		r := rand.New(rand.NewPCG(1, 2))
		p := NewPool(3)
		defer p.Close()
		for _, tr := range allTrans {
			sizesNear(r, func(m, n, k int) {
				c := gemmCase{m: m, n: n, k: k, ta: tr[0], tb: tr[1],
					padA: r.IntN(3), padB: r.IntN(3), padC: r.IntN(3),
					update: Update(r.IntN(2)), alpha: float64(r.IntN(3)) - 1}
				checkGemm[float32](t, set, p, c)
				checkGemm[float64](t, set, nil, c)
				c.formatA, c.formatB = gemmFormat(r.IntN(3)), gemmFormat(r.IntN(3))
				checkGemm[float32](t, set, nil, c)
			})
		}
	})
}
