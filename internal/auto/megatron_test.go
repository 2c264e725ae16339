package auto_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/auto"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

const (
	width, heads, vocab = 1024, 16, 32000
	rows, length        = 4, 512
)

// transformer is a language model whose parameters have names that nobody knows.
var transformer = program{"transformer", []ir.Type{ids(rows, length), ids(rows, length)},
	func(in *nn.Init) func(b []*op.Tensor) *op.Tensor {
		table := nn.NewEmbedding(in.At("t"), vocab, width)
		var blocks []func(x *op.Tensor) *op.Tensor
		for i := range 1 {
			blocks = append(blocks, newBlock(in.At(fmt.Sprint("s", i))))
		}
		head := nn.NewLinearNoBias(in.At("z"), width, vocab)
		return func(b []*op.Tensor) *op.Tensor {
			x := table.Forward(b[0])
			for _, f := range blocks {
				x = f(x)
			}
			return op.CrossEntropy(head.Forward(x), b[1], op.CrossEntropyConfig{})
		}
	}}

func newBlock(in *nn.Init) func(x *op.Tensor) *op.Tensor {
	before, after := nn.NewLayerNorm(in.At("n"), width, 1e-5), nn.NewLayerNorm(in.At("m"), width, 1e-5)
	linear := func(name string, from, to int) *nn.Linear { return nn.NewLinearNoBias(in.At(name), from, to) }
	q, k, v, o := linear("e", width, width), linear("f", width, width), linear("g", width, width),
		linear("h", width, width)
	up, down := linear("i", width, 4*width), linear("j", 4*width, width)
	return func(x *op.Tensor) *op.Tensor {
		y := before.Forward(x)
		a := op.Attention(nn.SplitHeads(q.Forward(y), heads), nn.SplitHeads(k.Forward(y), heads),
			nn.SplitHeads(v.Forward(y), heads), op.AttentionConfig{Causal: true})
		x = op.Add(x, o.Forward(op.Reshape(a, rows, length, width)))
		return op.Add(x, down.Forward(op.GELU(up.Forward(after.Forward(x)), "tanh")))
	}
}

// megatron returns the layout of Megatron-LM: columns, then rows, and the vocabulary.
func megatron(c auto.Config) auto.Candidate {
	x := auto.Candidate{Strategy: strategy.Strategy{DP: 1, TP: 4, PP: 1, Micro: 1}}
	columns, byRows := mesh.Split(mesh.On("tp"), nil), mesh.Split(nil, mesh.On("tp"))
	for _, p := range c.Run.Params {
		layer := strings.TrimSuffix(p.Name, ".weight")
		switch layer[len(layer)-1] {
		case 't', 'z', 'e', 'f', 'g', 'i': // a weight is [to, from]
			x.Weights = append(x.Weights, columns)
		case 'h', 'j':
			x.Weights = append(x.Weights, byRows)
		default:
			x.Weights = append(x.Weights, mesh.Whole(len(p.Type.Shape)))
		}
	}
	for _, t := range c.Batch {
		x.Inputs = append(x.Inputs, mesh.Whole(len(t.Shape)))
	}
	return x
}

// TestMegatronIsFound: on the devices of one host, a transformer that nobody annotated is laid out as
// Megatron-LM does it by hand, or better.
func TestMegatronIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a search takes seconds, and runs by itself")
	}
	m, err := auto.On("4 H100-SXM", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := transformer.config(m)
	c.Pinned = strategy.Strategy{DP: 1, TP: 4, PP: 1, Micro: 1, Recompute: strategy.None}
	hand := megatron(c)
	byHand, err := auto.PriceOf(c, hand)
	if err != nil {
		t.Fatal(err)
	}
	found, err := auto.Find(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("by hand %g s\n%s", byHand.Seconds, found)
	if found.Seconds > byHand.Seconds*1.001 {
		t.Errorf("found %g s, by hand %g s:\n%s", found.Seconds, byHand.Seconds, found)
	}
	if a, b := collectives(t, c, found.Candidate), collectives(t, c, hand); a > b {
		t.Errorf("found %d collectives a device, by hand there are %d:\n%s", a, b, found)
	}
}

// collectives returns how many of them a device of a candidate meets in.
func collectives(t *testing.T, c auto.Config, x auto.Candidate) int {
	t.Helper()
	p, err := c.Plan(x.Config(c.Run), c.Batch...)
	if err != nil {
		t.Fatal(err)
	}
	return p.Devices[0].Load.Collectives
}
