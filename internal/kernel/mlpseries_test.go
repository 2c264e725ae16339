package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// mlpCase is a network with random numbers.
type mlpCase[T Float] struct {
	MLPSeries[T]
	n          int
	x, kept    []T
	along, out [][]T
	dout       [][]T
	g          MLPGrads[T]
}

func newMLPCase[T Float](r *rand.Rand, n int, widths, orders []int) *mlpCase[T] {
	c := &mlpCase[T]{n: n, x: randomSlice[T](r, n*widths[0])}
	c.Orders, c.Widths = orders, widths
	c.g.X = make([]T, len(c.x))
	for range orders {
		c.along = append(c.along, randomSlice[T](r, len(c.x)))
		c.g.Along = append(c.g.Along, make([]T, len(c.x)))
	}
	for l, to := range widths[1:] {
		w := randomSlice[T](r, widths[l]*to)
		for i := range w {
			w[i] /= T(math.Sqrt(float64(widths[l])))
		}
		c.W, c.B = append(c.W, w), append(c.B, randomSlice[T](r, to))
		c.g.W, c.g.B = append(c.g.W, make([]T, len(w))), append(c.g.B, make([]T, to))
	}
	last := widths[len(widths)-1]
	for range c.Series() {
		c.out, c.dout = append(c.out, make([]T, n*last)), append(c.dout, randomSlice[T](r, n*last))
	}
	c.kept = make([]T, c.Kept()*ceilTo(n, TilePoints))
	return c
}

func (c *mlpCase[T]) forward(p *Pool)  { c.Forward(p, c.n, c.x, c.along, c.out, c.kept) }
func (c *mlpCase[T]) backward(p *Pool) { c.Backward(p, c.n, c.x, c.along, c.kept, c.dout, c.g) }

// loss returns the sum that Backward differentiates.
func (c *mlpCase[T]) loss() float64 {
	c.forward(nil)
	sum := 0.0
	for s, out := range c.out {
		for i, v := range out {
			sum += float64(v) * float64(c.dout[s][i])
		}
	}
	return sum
}

// TestMLPSeries holds derivatives along lines to differences of values, and gradients to differences of what
// they are the gradients of, for tiles that are full and not, and widths that are no multiple of anything.
func TestMLPSeries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, widths := range [][]int{{2, 20, 20, 1}, {3, 7, 5, 2}, {1, 64, 9, 4}, {4, 3}} {
		for _, n := range []int{1, 31, 32, 75, 600} {
			c := newMLPCase[float64](r, n, widths, []int{2, 1})
			checkLines(t, c)
			c.forward(nil)
			c.backward(nil)
			checkGrad(t, c, "x", c.x, c.g.X)
			checkGrad(t, c, "velocity", c.along[0], c.g.Along[0])
			checkGrad(t, c, "velocity", c.along[1], c.g.Along[1])
			for l := range c.W {
				checkGrad(t, c, "w", c.W[l], c.g.W[l])
				checkGrad(t, c, "b", c.B[l], c.g.B[l])
			}
		}
	}
}

// checkLines compares the derivatives along the first line with differences.
func checkLines(t *testing.T, c *mlpCase[float64]) {
	t.Helper()
	const h = 1e-4
	at := func(step float64) []float64 {
		moved := *c
		moved.x = make([]float64, len(c.x))
		for i := range c.x {
			moved.x[i] = c.x[i] + step*c.along[0][i]
		}
		moved.forward(nil)
		return append([]float64(nil), c.out[0]...)
	}
	before, after, here := at(-h), at(h), at(0)
	for i, v := range here {
		first, second := (after[i]-before[i])/(2*h), (after[i]-2*v+before[i])/(h*h)
		if !(math.Abs(first-c.out[1][i]) < 1e-5*(1+math.Abs(first))) ||
			!(math.Abs(second-c.out[2][i]) < 1e-4*(1+math.Abs(second))) {
			t.Fatalf("%v, %d points: element %d: got %g and %g, want %g and %g", c.Widths, c.n, i,
				c.out[1][i], c.out[2][i], first, second)
		}
	}
}

// checkGrad compares some gradients with differences.
func checkGrad(t *testing.T, c *mlpCase[float64], name string, x, dx []float64) {
	t.Helper()
	const h = 1e-4
	for i := 0; i < len(x); i += max(1, len(x)/5) {
		old := x[i]
		x[i] = old + h
		after := c.loss()
		x[i] = old - h
		want := (after - c.loss()) / (2 * h)
		x[i] = old
		if !(math.Abs(want-dx[i]) < 1e-4*(1+math.Abs(want))) {
			t.Fatalf("%v, %d points: gradient of %s %d: got %g, want %g", c.Widths, c.n, name, i, dx[i], want)
		}
	}
}

// TestMLPSeriesSingle holds float32 to float64.
func TestMLPSeriesSingle(t *testing.T) {
	for _, widths := range [][]int{{2, 20, 20, 1}, {1, 3, 2, 1}, {2, 3, 2}, {3, 64, 33, 2}} {
		for _, orders := range [][]int{{1}, {2}, {2, 1}} {
			c := newMLPCase[float32](rand.New(rand.NewPCG(7, 8)), 150, widths, orders)
			d := newMLPCase[float64](rand.New(rand.NewPCG(7, 8)), 150, widths, orders)
			copyTo(d.x, c.x)
			for i := range c.along {
				copyTo(d.along[i], c.along[i])
			}
			for l := range c.W {
				copyTo(d.W[l], c.W[l])
				copyTo(d.B[l], c.B[l])
			}
			for s := range c.dout {
				copyTo(d.dout[s], c.dout[s])
			}
			c.forward(nil)
			c.backward(nil)
			d.forward(nil)
			d.backward(nil)
			for s := range c.out {
				near(t, "result", c.out[s], d.out[s])
			}
			near(t, "x", c.g.X, d.g.X)
			for i := range orders {
				near(t, "velocity", c.g.Along[i], d.g.Along[i])
			}
			for l := range c.W {
				near(t, "w", c.g.W[l], d.g.W[l])
				near(t, "b", c.g.B[l], d.g.B[l])
			}
		}
	}
}

func copyTo(dst []float64, src []float32) {
	for i, v := range src {
		dst[i] = float64(v)
	}
}

func near(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	for i, w := range want {
		if !(math.Abs(float64(got[i])-w) < 2e-4*(1+math.Abs(w))) {
			t.Fatalf("%s %d: got %v, want %v", what, i, got[i], w)
		}
	}
}

// TestMLPSeriesThreads: as many threads as there are, the same bits.
func TestMLPSeriesThreads(t *testing.T) {
	p := NewPool(3)
	defer p.Close()
	one := newMLPCase[float32](rand.New(rand.NewPCG(5, 6)), 3000, []int{2, 20, 11, 3}, []int{2, 1, 1})
	many := newMLPCase[float32](rand.New(rand.NewPCG(5, 6)), 3000, []int{2, 20, 11, 3}, []int{2, 1, 1})
	one.forward(nil)
	one.backward(nil)
	many.forward(p)
	many.backward(p)
	for s := range one.out {
		sameBits(t, one.out[s], many.out[s])
	}
	sameBits(t, one.g.X, many.g.X)
	for l := range one.W {
		sameBits(t, one.g.W[l], many.g.W[l])
		sameBits(t, one.g.B[l], many.g.B[l])
	}
}

func sameBits(t *testing.T, a, b []float32) {
	t.Helper()
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			t.Fatalf("element %d: %v and %v", i, a[i], b[i])
		}
	}
}

func BenchmarkMLPSeries(b *testing.B) {
	benchmarkMLP[float32](b)
	benchmarkMLP[float64](b)
}

func benchmarkMLP[T Float](b *testing.B) {
	widths := []int{2, 20, 20, 20, 20, 20, 20, 20, 20, 1}
	c := newMLPCase[T](rand.New(rand.NewPCG(1, 2)), 2048, widths, []int{2, 1})
	flops := 0.0
	for l, w := range c.W {
		if l > 0 {
			flops += 2 * 4 * 2048 * float64(len(w))
		}
	}
	for _, run := range []struct {
		name  string
		f     func(*Pool)
		flops float64
	}{{"forward", c.forward, flops}, {"backward", c.backward, 2 * flops}} {
		b.Run(fmt.Sprintf("%T/%s", *new(T), run.name), func(b *testing.B) {
			best := time.Duration(math.MaxInt64)
			for b.Loop() {
				start := time.Now()
				run.f(nil)
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(best.Microseconds()), "µs-best")
			b.ReportMetric(run.flops/float64(best.Nanoseconds()), "GFLOP/s-best")
		})
	}
}
