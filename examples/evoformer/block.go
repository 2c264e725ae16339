package main

import (
	"math"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Config is the widths of a block.
type Config struct {
	MSA, Pair int
	// Heads of Dim each attend; Triangle is the width of the products of edges, Outer that of the vectors whose
	// outer product joins sequences and pairs, Expand what a transition multiplies the width by.
	Heads, Dim, Triangle, Outer, Expand int
}

// Block is one of AlphaFold's Evoformer [Jumper et al. 2021, algorithm 6], with the outer product at its end:
// until then the branch of sequences m [sequences, residues, MSA] and that of pairs z [residues, residues,
// Pair] do not depend on each other.
type Block struct {
	row, column, start, end  gatedAttention
	rowPair                  *nn.Linear
	startPair, endPair       *nn.Linear
	rowPairNorm              *nn.LayerNorm
	msaTransition, pairTrans transition
	out, in                  triangle
	outer                    outerProduct
}

const eps = 1e-5

// NewBlock makes a block.
func NewBlock(in *nn.Init, c Config) *Block {
	b := &Block{
		row:         newAttention(in.At("msa_row"), c, c.MSA),
		rowPair:     nn.NewLinearNoBias(in.At("msa_row").At("pair"), c.Pair, c.Heads),
		rowPairNorm: nn.NewLayerNorm(in.At("msa_row").At("pair_norm"), c.Pair, eps),
		column:      newAttention(in.At("msa_column"), c, c.MSA),
		out:         newTriangle(in.At("triangle_out"), c, "ikc,jkc->ijc"),
		in:          newTriangle(in.At("triangle_in"), c, "kic,kjc->ijc"),
		start:       newAttention(in.At("triangle_start"), c, c.Pair),
		startPair:   nn.NewLinearNoBias(in.At("triangle_start").At("pair"), c.Pair, c.Heads),
		end:         newAttention(in.At("triangle_end"), c, c.Pair),
		endPair:     nn.NewLinearNoBias(in.At("triangle_end").At("pair"), c.Pair, c.Heads),
		outer:       newOuterProduct(in.At("outer"), c),
	}
	b.msaTransition = newTransition(in.At("msa_transition"), c.MSA, c.Expand)
	b.pairTrans = newTransition(in.At("pair_transition"), c.Pair, c.Expand)
	return b
}

// Sequences returns the branch of sequences: what it needs of the pairs is their state before the block.
func (b *Block) Sequences(m, z *op.Tensor) *op.Tensor {
	m = op.Add(m, b.row.forward(b.row.norm.Forward(m), bias(b.rowPair, b.rowPairNorm.Forward(z))))
	x := op.Transpose(b.column.norm.Forward(m), 1, 0, 2)
	m = op.Add(m, op.Transpose(b.column.forward(x, nil), 1, 0, 2))
	return op.Add(m, b.msaTransition.forward(m))
}

// Pairs returns the branch of pairs.
func (b *Block) Pairs(z *op.Tensor) *op.Tensor {
	z = op.Add(z, b.out.forward(z))
	z = op.Add(z, b.in.forward(z))
	x := b.start.norm.Forward(z)
	z = op.Add(z, b.start.forward(x, bias(b.startPair, x)))
	x = b.end.norm.Forward(op.Transpose(z, 1, 0, 2))
	z = op.Add(z, op.Transpose(b.end.forward(x, bias(b.endPair, x)), 1, 0, 2))
	return op.Add(z, b.pairTrans.forward(z))
}

// Forward returns both branches, joined.
func (b *Block) Forward(m, z *op.Tensor) (msa, pair *op.Tensor) {
	msa, pair = b.Sequences(m, z), b.Pairs(z)
	return msa, op.Add(pair, b.outer.forward(msa))
}

// bias returns what pairs add to the scores of attention: [heads, residues, residues].
func bias(l *nn.Linear, z *op.Tensor) *op.Tensor { return op.Transpose(l.Forward(z), 2, 0, 1) }

// gatedAttention attends along the middle dim of x [rows, n, width].
type gatedAttention struct {
	norm             *nn.LayerNorm
	q, k, v, gate, o *nn.Linear
	heads, dim       int
}

func newAttention(in *nn.Init, c Config, width int) gatedAttention {
	inner := c.Heads * c.Dim
	return gatedAttention{
		norm: nn.NewLayerNorm(in.At("norm"), width, eps),
		q:    nn.NewLinearNoBias(in.At("q"), width, inner), k: nn.NewLinearNoBias(in.At("k"), width, inner),
		v: nn.NewLinearNoBias(in.At("v"), width, inner), gate: nn.NewLinear(in.At("gate"), width, inner),
		o: nn.NewLinear(in.At("o"), inner, width), heads: c.Heads, dim: c.Dim,
	}
}

func (a gatedAttention) forward(x, bias *op.Tensor) *op.Tensor {
	split := func(l *nn.Linear) *op.Tensor { return nn.SplitHeads(l.Forward(x), a.heads) }
	scores := op.MulScalar(op.Einsum("sihc,sjhc->shij", split(a.q), split(a.k)), 1/math.Sqrt(float64(a.dim)))
	if bias != nil {
		scores = op.Add(scores, bias)
	}
	y := op.Einsum("shij,sjhc->sihc", op.Softmax(scores, -1), split(a.v))
	y = op.Mul(op.Sigmoid(split(a.gate)), y)
	return a.o.Forward(op.Reshape(y, y.Dim(0), y.Dim(1), a.heads*a.dim))
}

// transition is an MLP on every element.
type transition struct {
	norm     *nn.LayerNorm
	up, down *nn.Linear
}

func newTransition(in *nn.Init, width, expand int) transition {
	return transition{nn.NewLayerNorm(in.At("norm"), width, eps), nn.NewLinear(in.At("up"), width, expand*width),
		nn.NewLinear(in.At("down"), expand*width, width)}
}

func (t transition) forward(x *op.Tensor) *op.Tensor {
	return t.down.Forward(op.ReLU(t.up.Forward(t.norm.Forward(x))))
}

// triangle updates an edge by the other two of all triangles that it is in.
type triangle struct {
	norm, outNorm               *nn.LayerNorm
	a, aGate, b, bGate, gate, o *nn.Linear
	equation                    string
}

func newTriangle(in *nn.Init, c Config, equation string) triangle {
	edge := func(name string) *nn.Linear { return nn.NewLinear(in.At(name), c.Pair, c.Triangle) }
	return triangle{
		norm:    nn.NewLayerNorm(in.At("norm"), c.Pair, eps),
		outNorm: nn.NewLayerNorm(in.At("out_norm"), c.Triangle, eps),
		a:       edge("a"), aGate: edge("a_gate"), b: edge("b"), bGate: edge("b_gate"),
		gate: nn.NewLinear(in.At("gate"), c.Pair, c.Pair), o: nn.NewLinear(in.At("o"), c.Triangle, c.Pair),
		equation: equation,
	}
}

func (t triangle) forward(z *op.Tensor) *op.Tensor {
	x := t.norm.Forward(z)
	a := op.Mul(op.Sigmoid(t.aGate.Forward(x)), t.a.Forward(x))
	b := op.Mul(op.Sigmoid(t.bGate.Forward(x)), t.b.Forward(x))
	y := t.o.Forward(t.outNorm.Forward(op.Einsum(t.equation, a, b)))
	return op.Mul(op.Sigmoid(t.gate.Forward(x)), y)
}

// outerProduct tells the pairs what sequences say of them: the mean over sequences of outer products.
type outerProduct struct {
	norm    *nn.LayerNorm
	a, b, o *nn.Linear
}

func newOuterProduct(in *nn.Init, c Config) outerProduct {
	return outerProduct{nn.NewLayerNorm(in.At("norm"), c.MSA, eps), nn.NewLinear(in.At("a"), c.MSA, c.Outer),
		nn.NewLinear(in.At("b"), c.MSA, c.Outer), nn.NewLinear(in.At("o"), c.Outer*c.Outer, c.Pair)}
}

func (p outerProduct) forward(m *op.Tensor) *op.Tensor {
	x := p.norm.Forward(m)
	y := op.Einsum("sic,sjd->ijcd", p.a.Forward(x), p.b.Forward(x))
	n := y.Dim(0)
	flat := op.Reshape(y, n, n, y.Dim(2)*y.Dim(3))
	return p.o.Forward(op.MulScalar(flat, 1/float64(m.Dim(0))))
}
