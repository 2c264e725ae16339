package shard_test

import (
	"fmt"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// size is the sizes of a transformer.
type size struct{ layers, batch, seq, hidden, heads, dim, inner, vocab int }

// training is a program under construction, and the layout its parameters should have.
type training struct {
	size
	b      *ir.Builder
	params []*op.Tensor
	asked  map[*op.Tensor]string
}

func (p *training) param(name, sharding string, shape ...int) *op.Tensor {
	v := p.b.Param(name, ir.Type{DType: array.F32, Shape: shape})
	p.params = append(p.params, v)
	p.asked[v] = sharding
	return v
}

// block returns one layer, split as usual: heads and inner dims by tp, weights also by dp.
func (p *training) block(x *op.Tensor, i int) *op.Tensor {
	s := p.size
	name := func(n string) string { return fmt.Sprintf("layer%d.%s", i, n) }
	wide := s.heads * s.dim
	n := op.RMSNorm(x, p.param(name("norm1"), "@[_]", s.hidden), 1e-5)
	head := func(w string) *op.Tensor {
		y := op.Linear(n, p.param(name(w), "@[tp,dp!1]", wide, s.hidden), nil)
		return op.Reshape(y, s.batch, s.seq, s.heads, s.dim)
	}
	q, k, v := op.RoPE(head("q"), op.RoPEConfig{}), op.RoPE(head("k"), op.RoPEConfig{}), head("v")
	a := op.Reshape(op.Attention(q, k, v, op.AttentionConfig{Causal: true}), s.batch, s.seq, wide)
	x = op.Add(x, op.Linear(a, p.param(name("o"), "@[dp!1,tp]", s.hidden, wide), nil))
	n = op.RMSNorm(x, p.param(name("norm2"), "@[_]", s.hidden), 1e-5)
	gate := op.Linear(n, p.param(name("gate"), "@[tp,dp!1]", s.inner, s.hidden), nil)
	up := op.Linear(n, p.param(name("up"), "@[tp,dp!1]", s.inner, s.hidden), nil)
	return op.Add(x, op.Linear(op.SwiGLU(gate, up), p.param(name("down"), "@[dp!1,tp]", s.hidden, s.inner), nil))
}

// step returns a training step: forward, backward and an update of every parameter.
func step(t testing.TB, s size) (*ir.Func, map[int]mesh.Sharding) {
	t.Helper()
	p := &training{size: s, b: ir.NewBuilder("step"), asked: map[*op.Tensor]string{}}
	ids := p.b.Param("ids", ir.Type{DType: array.I32, Shape: array.Shape{s.batch, s.seq}})
	labels := p.b.Param("labels", ir.Type{DType: array.I32, Shape: array.Shape{s.batch, s.seq}})
	lr := p.b.Param("lr", ir.Type{DType: array.F32})
	p.asked[ids], p.asked[labels] = "@[dp,?]", "@[dp,?]"
	x := op.Embedding(ids, p.param("embed", "@[tp,dp!1]", s.vocab, s.hidden))
	for i := range s.layers {
		x = p.block(x, i)
	}
	logits := op.Linear(op.RMSNorm(x, p.param("norm", "@[_]", s.hidden), 1e-5),
		p.param("head", "@[tp,dp!1]", s.vocab, s.hidden), nil)
	loss := op.CrossEntropy(logits, labels, op.CrossEntropyConfig{})
	results := []*op.Tensor{loss}
	for i, g := range op.Grad([]*op.Tensor{loss}, nil, p.params) {
		results = append(results, op.Sub(p.params[i], op.Mul(lr, g)))
	}
	f, err := p.b.Build(results...)
	if err != nil {
		t.Fatal(err)
	}
	asked := map[int]mesh.Sharding{}
	for v, text := range p.asked {
		sh, err := mesh.ParseSharding(text)
		if err != nil {
			t.Fatal(err)
		}
		asked[v.ID()] = sh
	}
	return f, asked
}

func parseMesh(t testing.TB, text string) *mesh.Mesh {
	t.Helper()
	m, err := mesh.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func BenchmarkInfer(b *testing.B) {
	f, asked := step(b, size{layers: 100, batch: 1024, seq: 4096, hidden: 8192, heads: 64, dim: 128,
		inner: 28672, vocab: 32000})
	m := parseMesh(b, "pp=8,dp=16,cp=4,tp=8")
	b.ReportMetric(float64(len(f.Nodes())), "nodes")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := shard.Infer(f, shard.Config{Mesh: m, Values: asked}); err != nil {
			b.Fatal(err)
		}
	}
}
