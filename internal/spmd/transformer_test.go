package spmd_test

import (
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"testing"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// sizes of a transformer.
type sizes struct{ layers, batch, seq, dim, heads, ffn, vocab int }

// weight is a parameter and how Megatron-style tensor parallelism splits it.
type weight struct {
	name  string
	shape []int
	spec  string
}

func (s sizes) weights() []weight {
	list := []weight{{"embed", []int{s.vocab, s.dim}, "@[tp,_]"}}
	for i := range s.layers {
		for _, w := range []weight{
			{"norm1", []int{s.dim}, "@[_]"},
			{"q", []int{s.dim, s.dim}, "@[_,tp]"}, {"k", []int{s.dim, s.dim}, "@[_,tp]"}, {"v", []int{s.dim, s.dim},
				"@[_,tp]"},
			{"o", []int{s.dim, s.dim}, "@[tp,_]"},
			{"norm2", []int{s.dim}, "@[_]"},
			{"gate", []int{s.dim, s.ffn}, "@[_,tp]"}, {"up", []int{s.dim, s.ffn}, "@[_,tp]"}, {"down",
				[]int{s.ffn, s.dim}, "@[tp,_]"},
		} {
			w.name = fmt.Sprintf("layer%d.%s", i, w.name)
			list = append(list, w)
		}
	}
	return append(list, weight{"norm", []int{s.dim}, "@[_]"}, weight{"head", []int{s.dim, s.vocab}, "@[_,tp]"})
}

// step traces a training step: ids and labels, then the weights, to the loss and the new weights.
func (s sizes) step(t testing.TB, dtype array.DType) *ir.Func {
	b := ir.NewBuilder("step")
	index := ir.Type{DType: array.I32, Shape: array.Shape{s.batch, s.seq}}
	ids, labels := b.Param("ids", index), b.Param("labels", index)
	var ws []*op.Tensor
	for _, w := range s.weights() {
		ws = append(ws, b.Param(w.name, ir.Type{DType: dtype, Shape: w.shape}))
	}
	loss := s.loss(ids, labels, ws)
	results := []*op.Tensor{loss}
	for i, g := range op.Grad([]*op.Tensor{loss}, nil, ws) {
		results = append(results, op.Sub(ws[i], op.MulScalar(g, 0.1)))
	}
	f, err := b.Build(results...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (s sizes) loss(ids, labels *op.Tensor, ws []*op.Tensor) *op.Tensor {
	next := func() *op.Tensor { w := ws[0]; ws = ws[1:]; return w }
	x := op.Embedding(ids, next())
	split := func(y *op.Tensor) *op.Tensor { return op.Reshape(y, s.batch, s.seq, s.heads, s.dim/s.heads) }
	for range s.layers {
		h := op.RMSNorm(x, next(), 1e-5)
		q, k, v := split(op.MatMul(h, next())), split(op.MatMul(h, next())), split(op.MatMul(h, next()))
		a := op.Attention(q, k, v, op.AttentionConfig{Causal: true})
		x = op.Add(x, op.MatMul(op.Reshape(a, s.batch, s.seq, s.dim), next()))
		h = op.RMSNorm(x, next(), 1e-5)
		x = op.Add(x, op.MatMul(op.SwiGLU(op.MatMul(h, next()), op.MatMul(h, next())), next()))
	}
	logits := op.MatMul(op.RMSNorm(x, next(), 1e-5), next())
	return op.Mean(op.CrossEntropy(op.Reshape(logits, s.batch*s.seq, s.vocab), op.Reshape(labels, s.batch*s.seq),
		op.CrossEntropyConfig{}))
}

// inferred returns the layout of the step on a mesh, with data split along dp and weights as they say.
func (s sizes) inferred(t testing.TB, f *ir.Func, m *mesh.Mesh, data string) *shard.Result {
	asked := map[int]mesh.Sharding{}
	ask := func(id int, text string) {
		sh, err := mesh.ParseSharding(text)
		if err != nil {
			t.Fatal(err)
		}
		asked[id] = sh
	}
	ask(0, data)
	ask(1, data)
	var results []mesh.Sharding
	results = append(results, mesh.Closed(mesh.Whole(0)))
	for i, w := range s.weights() {
		ask(2+i, w.spec)
		results = append(results, asked[2+i])
	}
	r, err := shard.Infer(f, shard.Config{Mesh: m, Values: asked, Results: results})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s sizes) args(dtype array.DType) []array.Array {
	rng := rand.New(rand.NewPCG(1, 1))
	var list []array.Array
	for range 2 {
		a := array.New(array.I32, s.batch, s.seq)
		for i := range a.Len() {
			array.Data[int32](a)[i] = int32(rng.IntN(s.vocab))
		}
		list = append(list, a)
	}
	for _, w := range s.weights() {
		a := array.New(dtype, w.shape...)
		for i := range a.Len() {
			array.Data[float64](a)[i] = rng.NormFloat64() / 4
		}
		list = append(list, a)
	}
	return list
}

// TestTransformer: a training step under data and tensor parallelism is the step of one device.
func TestTransformer(t *testing.T) {
	s := sizes{layers: 2, batch: 4, seq: 6, dim: 8, heads: 4, ffn: 12, vocab: 10}
	f := s.step(t, array.F64)
	for _, text := range []string{"dp=2,tp=1", "dp=1,tp=2", "dp=2,tp=2", "dp=2,tp=4", "dp=3,tp=2"} {
		t.Run(text, func(t *testing.T) {
			m := parseMesh(t, text)
			r := s.inferred(t, f, m, "@[dp,_]")
			p := agreesWith(t, f, r.Specs, m, spmd.Config{Results: r.Results}, s.args(array.F64), 1e-10)
			t.Logf("%d communications", len(p.Inserted()))
			if testing.Verbose() && text == "dp=2,tp=2" {
				for _, x := range p.Inserted() {
					t.Log(x)
				}
			}
		})
	}
}

// BenchmarkPartition: inference and partition of a large step on 4,096 devices.
func BenchmarkPartition(b *testing.B) {
	s := sizes{layers: 100, batch: 512, seq: 2048, dim: 8192, heads: 64, ffn: 28672, vocab: 32000}
	f := s.step(b, array.BF16)
	m := parseMesh(b, "dp=16,fsdp=8,tp=8,cp=4")
	var before, after goruntime.MemStats
	for b.Loop() {
		goruntime.ReadMemStats(&before)
		start := time.Now()
		r := s.inferred(b, f, m, "@[dp.fsdp,_]")
		inferred := time.Since(start)
		p, err := spmd.Partition(f, r.Specs, m, spmd.Config{Results: r.Results})
		if err != nil {
			b.Fatal(err)
		}
		planned := time.Since(start)
		classes, err := p.Classes()
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range classes {
			if _, err := p.Local(c[0]); err != nil {
				b.Fatal(err)
			}
		}
		goruntime.ReadMemStats(&after)
		b.Logf("%d nodes: infer %v, partition %v, local programs %v; %d MB allocated; %d classes of programs, "+
			"%d communications", len(f.Nodes()),
			inferred, planned-inferred, time.Since(start)-planned, (after.TotalAlloc-before.TotalAlloc)>>20,
			len(classes), len(p.Inserted()))
	}
}

// TestLargeStep: planning for 4,096 devices is cheap, since they share programs. The time is the benchmark's
// to tell.
func TestLargeStep(t *testing.T) {
	s := sizes{layers: 100, batch: 512, seq: 2048, dim: 8192, heads: 64, ffn: 28672, vocab: 32000}
	f := s.step(t, array.BF16)
	m := parseMesh(t, "dp=16,fsdp=8,tp=8,cp=4")
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	r := s.inferred(t, f, m, "@[dp.fsdp,_]")
	p, err := spmd.Partition(f, r.Specs, m, spmd.Config{Results: r.Results})
	if err != nil {
		t.Fatal(err)
	}
	classes, err := p.Classes()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range classes {
		if _, err := p.Local(c[0]); err != nil {
			t.Fatal(err)
		}
	}
	goruntime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 500 || len(classes) > 8 {
		t.Errorf("%d MB, %d different programs", mb, len(classes))
	}
	perLayer := 0
	for _, x := range p.Inserted() {
		if slices.Contains(x.Move.Axes, mesh.Sub{Axis: "tp"}) {
			perLayer++
		}
	}
	if perLayer > 4*s.layers+6 {
		t.Errorf("%d communications over tp: want the four of Megatron in each of %d layers", perLayer, s.layers)
	}
}
