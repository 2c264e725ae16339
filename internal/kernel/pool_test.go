package kernel

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// pools runs a test on pools of several sizes, and on the nil pool.
func pools(t *testing.T, f func(t *testing.T, p *Pool)) {
	t.Run("nil", func(t *testing.T) { f(t, nil) })
	for _, threads := range []int{1, 2, 3, 8} {
		t.Run(fmt.Sprint(threads), func(t *testing.T) {
			p := NewPool(threads)
			defer p.Close()
			f(t, p)
		})
	}
}

func TestPoolRun(t *testing.T) {
	pools(t, func(t *testing.T, p *Pool) {
		for _, tasks := range []int{0, 1, 2, 7, 100} {
			for range 200 {
				count := make([]int32, tasks)
				p.Run(tasks, func(i int) { atomic.AddInt32(&count[i], 1) })
				for i, c := range count {
					if c != 1 {
						t.Fatalf("task %d of %d ran %d times", i, tasks, c)
					}
				}
			}
		}
	})
}

func TestPoolNested(t *testing.T) {
	pools(t, func(t *testing.T, p *Pool) {
		var sum atomic.Int64
		p.Run(10, func(int) {
			p.Run(10, func(int) {
				p.Run(10, func(i int) { sum.Add(int64(i)) })
			})
		})
		if got := sum.Load(); got != 4500 {
			t.Errorf("sum = %d, want 4500", got)
		}
	})
}

func TestPoolConcurrent(t *testing.T) {
	pools(t, func(t *testing.T, p *Pool) {
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				for range 100 {
					var sum atomic.Int64
					p.Run(20, func(i int) { sum.Add(int64(i)) })
					if got := sum.Load(); got != 190 {
						t.Errorf("sum = %d, want 190", got)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestPoolPanic(t *testing.T) {
	pools(t, func(t *testing.T, p *Pool) {
		for range 20 {
			func() {
				defer func() {
					if r := recover(); r != "broken" {
						t.Errorf("recovered %v, want broken", r)
					}
				}()
				p.Run(50, func(i int) {
					if i == 20 {
						panic("broken")
					}
				})
			}()
		}
		p.Run(10, func(int) {})
	})
}

func TestPoolFor(t *testing.T) {
	pools(t, func(t *testing.T, p *Pool) {
		for _, n := range []int{0, 1, 9, 10, 11, 1000} {
			for _, grain := range []int{-1, 0, 1, 10, 2000} {
				checkFor(t, p, n, grain)
			}
		}
	})
}

func checkFor(t *testing.T, p *Pool, n, grain int) {
	t.Helper()
	seen := make([]int32, n)
	p.For(n, grain, func(lo, hi int) {
		if grain > 0 && (lo%grain != 0 || hi != min(n, lo+grain)) {
			t.Errorf("chunk [%d, %d) of %d by %d", lo, hi, n, grain)
		}
		for i := lo; i < hi; i++ {
			atomic.AddInt32(&seen[i], 1)
		}
	})
	for i, c := range seen {
		if c != 1 {
			t.Fatalf("n %d, grain %d: element %d met %d times", n, grain, i, c)
		}
	}
}

func TestPoolClosed(t *testing.T) {
	p := NewPool(4)
	p.Close()
	p.Close()
	ran := 0
	p.Run(5, func(int) { ran++ })
	if ran != 5 || p.Threads() != 1 {
		t.Errorf("closed pool ran %d tasks on %d threads", ran, p.Threads())
	}
}

func BenchmarkPoolRun(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			p := NewPool(threads)
			defer p.Close()
			b.ReportAllocs()
			for b.Loop() {
				p.Run(8, func(int) {})
			}
		})
	}
}
