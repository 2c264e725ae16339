package branch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// prices are of devices of 1 Gflop/s and messages that cost a microsecond and a nanosecond a byte.
var prices = spmd.Prices{Flop: 1e-9, Memory: 1e-12, Default: spmd.Link{Alpha: 1e-6, Beta: 1e-9}}

func build(t *testing.T, f func(b *ir.Builder) []*ir.Value) *ir.Func {
	t.Helper()
	b := ir.NewBuilder("f")
	p, err := b.Build(f(b)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func matrix(b *ir.Builder, name string, shape ...int) *ir.Value {
	return b.Param(name, ir.Type{DType: array.F32, Shape: shape})
}

// TestParallelBlock: attention and the MLP of a parallel block run on different devices, each with its
// weights; in a block where one follows the other there is nothing to gain.
func TestParallelBlock(t *testing.T) {
	const n = 64
	f := build(t, func(b *ir.Builder) []*ir.Value {
		x := matrix(b, "x", n, n)
		scores := op.Softmax(
			op.MatMul(op.MatMul(x, matrix(b, "q", n, n)), op.Transpose(op.MatMul(x, matrix(b, "k", n, n)), 1, 0)),
			-1,
		)
		attention := op.MatMul(scores, matrix(b, "v", n, n))
		mlp := op.MatMul(op.ReLU(op.MatMul(x, matrix(b, "up", n, 2*n))), matrix(b, "down", 2*n, n))
		return []*ir.Value{op.Add(x, op.Add(attention, mlp))}
	})
	p := Find(f, Config{Prices: prices})
	if !p.Pays() {
		t.Fatalf("two devices are predicted to take %g, one %g", p.Seconds, p.Serial)
	}
	home := map[string]int{}
	for i, v := range f.Params() {
		home[v.Name()] = p.home[i]
	}
	if home["up"] != home["down"] || home["q"] == home["up"] && home["k"] == home["up"] {
		t.Errorf("weights lie at %v: want those of the MLP together, and attention elsewhere", home)
	}
	chain := build(t, func(b *ir.Builder) []*ir.Value {
		x := matrix(b, "x", n, n)
		for i := range 6 {
			x = op.MatMul(x, matrix(b, fmt.Sprint(i), n, n))
		}
		return []*ir.Value{x}
	})
	if p := Find(chain, Config{Prices: prices}); p.Pays() || p.Messages > 0 {
		t.Errorf("a chain: %d messages, %g seconds on two devices, %g on one", p.Messages, p.Seconds, p.Serial)
	}
}

// TestBruteForce: on small random programs the plan is close to the best of all places for its nodes, and
// never better, and what it writes is a program in which values change devices as often as it says.
func TestBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	worst := 1.0
	for range 60 {
		f := build(t, func(b *ir.Builder) []*ir.Value {
			list := []*ir.Value{matrix(b, "a", 32, 32), matrix(b, "b", 32, 32)}
			for range 9 {
				list = append(list, op.MatMul(list[r.IntN(len(list))], list[r.IntN(len(list))]))
			}
			return list[len(list)-3:]
		})
		p := Find(f, Config{Prices: prices})
		g := newGraph(f, Config{Prices: prices})
		n := len(p.device)
		q := &Plan{order: p.order, device: make([]int, n), start: make([]float64, n), end: make([]float64, n)}
		best := p.Serial
		for places := range 1 << len(q.device) {
			for i := range q.device {
				q.device[i] = places >> i & 1
			}
			best = min(best, g.run(q))
		}
		if p.Seconds < best*(1-1e-12) {
			t.Fatalf("got %g, and the best of all is %g", p.Seconds, best)
		}
		worst = max(worst, p.Seconds/best)
		applied(t, p, f)
	}
	if worst > 1.25 {
		t.Errorf("a plan takes %.2f times the best", worst)
	}
}

// applied checks the program that a plan writes.
func applied(t *testing.T, p *Plan, f *ir.Func) {
	t.Helper()
	var meshes [2]*mesh.Mesh
	for i, text := range []string{"x=1", "x=1@[1]"} {
		m, err := mesh.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		meshes[i] = m
	}
	h, err := p.Apply(f, meshes)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(h.String(), "= reshard{"); got != p.Messages {
		t.Errorf("%d reshards, want %d:\n%v", got, p.Messages, h)
	}
}
