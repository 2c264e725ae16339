package spmd_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// head is a language model without layers: a table, a matrix to logits and the loss, with the gradients of
// both.
type head struct {
	batch, seq, dim, vocab int
	smoothing              float64
}

func (h head) trace(t *testing.T, dtype array.DType) *ir.Func {
	b := ir.NewBuilder("head")
	index := ir.Type{DType: array.I32, Shape: array.Shape{h.batch, h.seq}}
	ids, labels := b.Param("ids", index), b.Param("labels", index)
	table := b.Param("table", ir.Type{DType: dtype, Shape: array.Shape{h.vocab, h.dim}})
	w := b.Param("w", ir.Type{DType: dtype, Shape: array.Shape{h.dim, h.vocab}})
	logits := op.MatMul(op.Embedding(ids, table), w)
	loss := op.CrossEntropy(logits, labels, op.CrossEntropyConfig{LabelSmoothing: h.smoothing})
	grads := op.Grad([]*op.Tensor{loss}, nil, []*op.Tensor{table, w})
	f, err := b.Build(append([]*op.Tensor{loss}, grads...)...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (h head) args() []array.Array {
	rng := rand.New(rand.NewPCG(5, 1))
	var list []array.Array
	for range 2 {
		a := array.New(array.I32, h.batch, h.seq)
		for i := range a.Len() {
			array.Data[int32](a)[i] = int32(rng.IntN(h.vocab))
		}
		list = append(list, a)
	}
	array.Data[int32](list[1])[1] = -100
	for _, shape := range [][]int{{h.vocab, h.dim}, {h.dim, h.vocab}} {
		a := array.New(array.F64, shape...)
		for i := range a.Len() {
			array.Data[float64](a)[i] = rng.NormFloat64()
		}
		list = append(list, a)
	}
	return list
}

func askedFor(t *testing.T, texts ...string) map[int]mesh.Sharding {
	asked := map[int]mesh.Sharding{}
	for i, text := range texts {
		s, err := mesh.ParseSharding(text)
		if err != nil {
			t.Fatal(err)
		}
		asked[i] = s
	}
	return asked
}

// TestVocabularyParallel: with the vocabulary split, nothing that has it is gathered, whether parts are even,
// uneven or empty. The tokens are few: a table smaller than what is looked up in it is cheaper to gather.
func TestVocabularyParallel(t *testing.T) {
	for _, c := range []struct {
		mesh  string
		vocab int
	}{{"dp=1,tp=2", 10}, {"dp=2,tp=2", 12}, {"dp=1,tp=3", 10}, {"dp=1,tp=4", 5}, {"dp=2,tp=4", 9}} {
		for _, smoothing := range []float64{0, 0.1} {
			t.Run(fmt.Sprintf("%s,vocab=%d,smoothing=%v", c.mesh, c.vocab, smoothing), func(t *testing.T) {
				h := head{batch: 2, seq: 1, dim: 6, vocab: c.vocab, smoothing: smoothing}
				m, f := parseMesh(t, c.mesh), h.trace(t, array.F64)
				r, err := shard.Infer(f, shard.Config{Mesh: m, Values: askedFor(t, "@[dp,_]", "@[dp,_]", "@[tp,_]",
					"@[_,tp]")})
				if err != nil {
					t.Fatal(err)
				}
				p := agreesWith(t, f, r.Specs, m, spmd.Config{Results: r.Results}, h.args(), 1e-11)
				if _, give := p.How(1); !slices.ContainsFunc(give[0].Dims[2],
					func(s mesh.Sub) bool { return s.Axis == "tp" }) {
					t.Errorf("logits have layout %s: want the vocabulary split", give[0])
				}
				wantNoGathers(t, p)
			})
		}
	}
}

func wantNoGathers(t *testing.T, p *spmd.Program) {
	t.Helper()
	for _, x := range p.Inserted() {
		if x.Move.Kind != spmd.AllReduce {
			t.Errorf("got %v: want sums only", x)
		}
		if strings.Contains(x.Reason, "together") && !x.Asked {
			t.Errorf("got %v: want it to be the op's own", x)
		}
	}
}

// TestVocabularyParallelMemory: a device never holds two copies of its part of the logits.
func TestVocabularyParallelMemory(t *testing.T) {
	h := head{batch: 4, seq: 64, dim: 8, vocab: 4096}
	m, f := parseMesh(t, "tp=4"), h.trace(t, array.F32)
	r, err := shard.Infer(f, shard.Config{Mesh: m, Values: askedFor(t, "@[_,_]", "@[_,_]", "@[tp,_]",
		"@[_,tp]")})
	if err != nil {
		t.Fatal(err)
	}
	p, err := spmd.Partition(f, r.Specs, m, spmd.Config{Results: r.Results})
	if err != nil {
		t.Fatal(err)
	}
	local, err := p.Local(0)
	if err != nil {
		t.Fatal(err)
	}
	need, err := cpu.MemoryOf(local, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	part := 4 * h.batch * h.seq * h.vocab / 4
	if need.Arena > part*5/4 {
		t.Errorf("the arena is %d bytes: want little more than the logits' %d", need.Arena, part)
	}
}
