package op_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// attentionRun is an attention and its gradient with memory for all they read and write.
type attentionRun struct {
	device            *cpu.Device
	forward, backward op.Op
	in, out           []array.Array
	gradIn, gradOut   []array.Array
}

// newAttentionRun traces a causal attention and its gradient to find the ops, and fills their operands.
func newAttentionRun(d *cpu.Device, batch, seqQ, seqK, heads, dim int) *attentionRun {
	rng := rand.New(rand.NewPCG(1, 9))
	r := &attentionRun{device: d}
	b := ir.NewBuilder("main")
	var xs []*op.Tensor
	for _, seq := range []int{seqQ, seqK, seqK} {
		r.in = append(r.in, normals(rng, array.F32, batch, seq, heads, dim))
		xs = append(xs, b.Param("", op.Type{DType: array.F32, Shape: array.Shape{batch, seq, heads, dim}}))
	}
	y := op.Attention(xs[0], xs[1], xs[2], op.AttentionConfig{Causal: true, Offset: seqK - seqQ})
	g := op.Grad([]*op.Tensor{y}, nil, xs)
	r.forward, r.backward = y.Node().Op().(op.Op), g[0].Node().Op().(op.Op)
	r.out = []array.Array{array.New(array.F32, batch, seqQ, heads, dim),
		array.New(array.F32, batch, heads, seqQ)}
	r.gradIn = append(append(r.gradIn, r.in...), r.out[0], r.out[1],
		normals(rng, array.F32, batch, seqQ, heads, dim))
	for _, a := range r.in {
		r.gradOut = append(r.gradOut, array.New(array.F32, a.Shape()...))
	}
	r.device.Eval(r.forward, r.in, r.out)
	return r
}

func (r *attentionRun) runForward()  { r.device.Eval(r.forward, r.in, r.out) }
func (r *attentionRun) runBackward() { r.device.Eval(r.backward, r.gradIn, r.gradOut) }

// scratch returns the bytes that f takes besides operands and results: all it allocates when no buffer is
// left over from earlier calls.
func scratch(f func()) float64 {
	runtime.GC()
	runtime.GC() // the first only moves pooled buffers aside
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// poolsForget reports whether pools drop at random what is put into them, as they do under the race detector.
func poolsForget() bool {
	var p sync.Pool
	for range 100 {
		p.Put(new(int))
		if p.Get() == nil {
			return true
		}
	}
	return false
}

// TestAttentionMemory: scratch memory grows no faster than the sequence.
func TestAttentionMemory(t *testing.T) {
	if poolsForget() {
		t.Skip("pools forget what they are given: all that is allocated is more than the peak")
	}
	d := device(t, 2)
	var last [2]float64
	for _, seq := range []int{1024, 4096, 16384} {
		r := newAttentionRun(d, 1, seq, seq, 1, 16)
		for i, f := range []func(){r.runForward, r.runBackward} {
			got := scratch(f)
			if limit := 2 * float64(r.in[0].Len()*4); got > max(limit, 1<<21) {
				t.Errorf("sequence %d, pass %d: %.0f bytes of scratch for %.0f of operand", seq, i, got, limit/2)
			}
			if last[i] != 0 && got > 4*last[i]+1<<20 {
				t.Errorf("sequence %d, pass %d: %.0f bytes of scratch, %.0f at a quarter of the length", seq, i, got,
					last[i])
			}
			last[i] = got
		}
	}
}

// BenchmarkAttention times the shapes that count and reports scratch memory.
func BenchmarkAttention(b *testing.B) {
	for _, c := range []struct {
		name                          string
		batch, seqQ, seqK, heads, dim int
	}{
		{"gpt2", 8, 256, 256, 4, 64},
		{"1k", 1, 1024, 1024, 4, 64},
		{"4k", 1, 4096, 4096, 4, 64},
		{"16k", 1, 16384, 16384, 4, 64},
		{"decode", 8, 1, 1024, 12, 64},
	} {
		for _, threads := range []int{1, 2} {
			d := cpu.NewDevice(cpu.Config{Threads: threads})
			r := newAttentionRun(d, c.batch, c.seqQ, c.seqK, c.heads, c.dim)
			for _, pass := range []struct {
				name string
				f    func()
			}{{"forward", r.runForward}, {"backward", r.runBackward}} {
				if c.seqQ == 1 && pass.name == "backward" {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s/threads=%d", c.name, pass.name, threads), func(b *testing.B) {
					bytes := scratch(pass.f)
					for b.Loop() {
						pass.f()
					}
					b.ReportMetric(bytes, "scratch-B")
				})
			}
			d.Close()
		}
	}
}

func BenchmarkRoPE(b *testing.B) {
	for _, threads := range []int{1, 2} {
		d := cpu.NewDevice(cpu.Config{Threads: threads})
		x := normals(rand.New(rand.NewPCG(1, 9)), array.F32, 8, 256, 4, 64)
		y := array.New(array.F32, x.Shape()...)
		builder := ir.NewBuilder("main")
		o := op.RoPE(builder.Param("", ir.TypeOf(x)), op.RoPEConfig{}).Node().Op().(op.Op)
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d.Eval(o, []array.Array{x}, []array.Array{y})
			}
		})
		d.Close()
	}
}
