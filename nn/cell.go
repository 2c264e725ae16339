package nn

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// gates holds the parameters of a cell of any kind: for each of several gates, the weights of inputs and of
// the previous state, [gates·hidden, …], and their biases, which are nil in a cell without.
type gates struct {
	WeightIH, WeightHH, BiasIH, BiasHH *Param
	Hidden                             int
}

// newGates makes weights with PyTorch's names, plus a suffix, and its initial values.
func newGates(in *Init, suffix string, from, hidden, n int, bias bool) gates {
	first := Uniform(1 / math.Sqrt(float64(max(hidden, 1))))
	g := gates{Hidden: hidden, WeightIH: in.Param("weight_ih"+suffix, array.Shape{n * hidden, from}, first),
		WeightHH: in.Param("weight_hh"+suffix, array.Shape{n * hidden, hidden}, first)}
	if bias {
		g.BiasIH = in.Param("bias_ih"+suffix, array.Shape{n * hidden}, first)
		g.BiasHH = in.Param("bias_hh"+suffix, array.Shape{n * hidden}, first)
	}
	return g
}

func affine(x *op.Tensor, weight, bias *Param) *op.Tensor {
	return (&Linear{Weight: weight, Bias: bias}).Forward(x)
}

// inputs returns the contribution of inputs, of one step or of all, to the gates.
func (g gates) inputs(x *op.Tensor) *op.Tensor { return affine(x, g.WeightIH, g.BiasIH) }

// state returns the contribution of the previous state.
func (g gates) state(h *op.Tensor) *op.Tensor { return affine(h, g.WeightHH, g.BiasHH) }

// zeros returns the state before the first step for a batch of x.
func (g gates) zeros(x *op.Tensor) *op.Tensor {
	return op.Full(x.Scope(), x.DType(), array.Shape{x.Dim(0), g.Hidden}, 0)
}

// each splits y into the parts of the gates.
func (g gates) each(y *op.Tensor, n int) []*op.Tensor { return op.Chunk(y, -1, n) }

// RNNCell is one step of a plain recurrent layer: tanh(W_ih·x + b_ih + W_hh·h + b_hh), or a ReLU of that.
type RNNCell struct {
	gates
	ReLU bool
}

// NewRNNCell makes a cell with tanh.
func NewRNNCell(in *Init, from, hidden int) *RNNCell {
	return &RNNCell{gates: newGates(in, "", from, hidden, 1, true)}
}

// Forward returns the state after x [batch, from]; a nil h [batch, hidden] is zeros.
func (c *RNNCell) Forward(x, h *op.Tensor) *op.Tensor { return stepOf(c, x, h)[0] }

func (c *RNNCell) step(x *op.Tensor, s []*op.Tensor) []*op.Tensor {
	y := op.Add(x, c.state(s[0]))
	if c.ReLU {
		return []*op.Tensor{op.ReLU(y)}
	}
	return []*op.Tensor{op.Tanh(y)}
}

func (c *RNNCell) first(x *op.Tensor) []*op.Tensor { return []*op.Tensor{c.zeros(x)} }

// GRUCell is one step of a gated recurrent unit, as PyTorch defines it: the reset gate is applied to the
// contribution of the state, including its bias.
type GRUCell struct{ gates }

// NewGRUCell makes a cell.
func NewGRUCell(in *Init, from, hidden int) *GRUCell {
	return &GRUCell{newGates(in, "", from, hidden, 3, true)}
}

// Forward returns the state after x [batch, from]; a nil h [batch, hidden] is zeros.
func (c *GRUCell) Forward(x, h *op.Tensor) *op.Tensor { return stepOf(c, x, h)[0] }

func (c *GRUCell) step(x *op.Tensor, s []*op.Tensor) []*op.Tensor {
	i, h := c.each(x, 3), c.each(c.state(s[0]), 3)
	if len(i) != 3 || len(h) != 3 {
		return []*op.Tensor{op.Add(x, c.state(s[0]))} // it carries the error
	}
	reset, update := op.Sigmoid(op.Add(i[0], h[0])), op.Sigmoid(op.Add(i[1], h[1]))
	fresh := op.Tanh(op.Add(i[2], op.Mul(reset, h[2])))
	return []*op.Tensor{op.Add(fresh, op.Mul(update, op.Sub(s[0], fresh)))}
}

func (c *GRUCell) first(x *op.Tensor) []*op.Tensor { return []*op.Tensor{c.zeros(x)} }

// LSTMCell is one step of a long short-term memory: gates in PyTorch's order, input, forget, cell, output.
type LSTMCell struct{ gates }

// NewLSTMCell makes a cell.
func NewLSTMCell(in *Init, from, hidden int) *LSTMCell {
	return &LSTMCell{newGates(in, "", from, hidden, 4, true)}
}

// Forward returns the state and the memory after x [batch, from]; nil h and c [batch, hidden] are zeros.
func (c *LSTMCell) Forward(x, h, memory *op.Tensor) (next, kept *op.Tensor) {
	s := stepOf(c, x, h, memory)
	return s[0], s[1]
}

func (c *LSTMCell) step(x *op.Tensor, s []*op.Tensor) []*op.Tensor {
	sum := op.Add(x, c.state(s[0]))
	g := c.each(sum, 4)
	if len(g) != 4 {
		return []*op.Tensor{sum, sum}
	}
	kept := op.Add(op.Mul(op.Sigmoid(g[1]), s[1]), op.Mul(op.Sigmoid(g[0]), op.Tanh(g[2])))
	return []*op.Tensor{op.Mul(op.Sigmoid(g[3]), op.Tanh(kept)), kept}
}

func (c *LSTMCell) first(x *op.Tensor) []*op.Tensor { return []*op.Tensor{c.zeros(x), c.zeros(x)} }
