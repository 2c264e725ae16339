package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGemmZeros holds products with rows that begin or end with zeros to the bits of all terms.
func TestGemmZeros(t *testing.T) {
	p := NewPool(3)
	defer p.Close()
	const tiny = 1e-30 // products underflow, also to -0
	for _, s := range [][3]int{{256, 64, 256}, {200, 70, 131}, {150, 100, 512}, {300, 40, 67}, {256, 64, 600}} {
		for _, shape := range []string{"lower", "upper", "band", "none", "zero"} {
			for _, edit := range []string{"", "inf", "nan", "tiny"} {
				for _, trans := range []Trans{NoTrans, Transpose} {
					g := maskedProduct(s[0], s[1], s[2], shape, trans)
					b := slices.Clone(g.b)
					switch edit {
					case "inf":
						b[len(b)-1] = float32(math.Inf(-1))
					case "nan":
						b[0] = float32(math.NaN())
					case "tiny":
						for i := range g.a {
							g.a[i] *= tiny
						}
						for i := range b {
							b[i] *= tiny
						}
					}
					name := fmt.Sprintf("%v %s %s trans %v", s, shape, edit, trans)
					eachSet(t, func(t *testing.T, set *gemmSet) {
						want := g.run(set, nil, b, false)
						for _, pool := range []*Pool{nil, p} {
							if got := g.run(set, pool, b, true); !slices.Equal(got, want) {
								t.Errorf("%s %s: other bits", set.name, name)
							}
						}
					})
				}
			}
		}
	}
}

// masked is a product whose rows of A have zeros.
type masked struct {
	m, n, k int
	a, b    []float32
	trans   Trans
}

func maskedProduct(m, n, k int, shape string, trans Trans) masked {
	r := rand.New(rand.NewPCG(uint64(m), uint64(k)))
	g := masked{m, n, k, randomSlice[float32](r, m*k), randomSlice[float32](r, k*n), trans}
	hidden := map[string]func(i, p int) bool{
		"lower": func(i, p int) bool { return p > i },
		"upper": func(i, p int) bool { return p < i },
		"band":  func(i, p int) bool { return p > i || p < i-90 },
		"none":  func(int, int) bool { return false },
		"zero":  func(int, int) bool { return true },
	}[shape]
	for i := range m {
		for p := range k {
			at := i*k + p
			if trans == Transpose {
				at = p*m + i
			}
			if hidden(i, p) {
				g.a[at] = float32(math.Copysign(0, float64(g.a[at])))
			}
		}
	}
	return g
}

// run returns the bits of the product.
func (g masked) run(set *gemmSet, p *Pool, b []float32, zeros bool) []uint32 {
	c := make([]float32, g.m*g.n)
	Gemm[float32]{M: g.m, N: g.n, K: g.k, A: Dense(g.a, 0, g.trans), B: Dense(b, 0, NoTrans), C: c,
		Zeros: zeros}.runOn(set, p)
	bits := make([]uint32, len(c))
	for i, v := range c {
		bits[i] = math.Float32bits(v)
	}
	return bits
}
