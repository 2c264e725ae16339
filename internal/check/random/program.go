package random

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// Annotated is a random program whose parameters, inputs and activations have layout annotations.
type Annotated struct {
	Seed uint64
	// Devices is the number of devices; Meshes are grids of some or all of them.
	Devices int
	Meshes  []*mesh.Mesh
	Weights []tensor
	Inputs  []tensor
	// Code computes values: the inputs are the first, and the last is the loss.
	Code []instr
	// Asked is a strategy that does not change the results, including ZeRO over ZeroAxis; meshes determine the
	// degrees.
	Asked    strategy.Strategy
	ZeroAxis string
	// changed, if set, changes the annotations after the program was compiled, for tests of the check itself.
	changed func(p *Annotated)
}

// tensor is a parameter or an input: its shape and its layout.
type tensor struct {
	Shape array.Shape
	// Ids is the number of rows of a table that ids refer to; 0 for floats.
	Ids int
	At  laid
}

// laid is a requested layout: on a mesh by index, -1 if none is requested.
type laid struct {
	Mesh   int
	Places mesh.Placements
}

var nowhere = laid{Mesh: -1}

// instr computes a value from values and weights, by index.
type instr struct {
	Op      string
	In      []int
	Weights []int
	// Dim, From and To, and Shape, are attributes of some ops.
	Dim, From, To int
	Shape         []int
	At            laid
}

// String prints the whole program.
func (p *Annotated) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "annotated program %d on %d devices\n  strategy %s, zero over %q\n", p.Seed, p.Devices,
		p.Asked.Line(), p.ZeroAxis)
	for i, m := range p.Meshes {
		fmt.Fprintf(&b, "  mesh %d: %v\n", i, m)
	}
	for i, w := range p.Weights {
		fmt.Fprintf(&b, "  w%d: %v%v\n", i, w.Shape, w.At)
	}
	for i, x := range p.Inputs {
		fmt.Fprintf(&b, "  v%d: input %v%v\n", i, x.Shape, x.At)
	}
	for i, c := range p.Code {
		fmt.Fprintf(&b, "  v%d = %s v%v w%v dim %d %d:%d %v%v\n", len(p.Inputs)+i, c.Op, c.In, c.Weights, c.Dim,
			c.From, c.To, c.Shape, c.At)
	}
	return b.String()
}

// String prints the requested layout.
func (l laid) String() string {
	if l.Mesh < 0 {
		return ""
	}
	return fmt.Sprintf(" on mesh %d as %v", l.Mesh, l.Places)
}

// unary is the ops of one operand.
var unary = map[string]func(x *op.Tensor) *op.Tensor{
	"tanh": op.Tanh, "sigmoid": op.Sigmoid, "silu": op.SiLU, "sin": op.Sin, "softplus": op.Softplus,
	"gelu": func(x *op.Tensor) *op.Tensor { return op.GELU(x, "none") },
	"half": func(x *op.Tensor) *op.Tensor { return op.MulScalar(x, 0.5) }, "move": op.Identity,
	"shifted": func(x *op.Tensor) *op.Tensor { return op.AddScalar(op.Neg(x), 0.1) },
	"squares": func(x *op.Tensor) *op.Tensor { return op.Mean(op.Square(x)) },
	"gram":    func(x *op.Tensor) *op.Tensor { return op.Tanh(op.MatMulT(x, x, false, true)) },
	"heads":   heads,
}

// heads returns attention of rows [batch, sequence, width] to themselves, with two heads.
func heads(x *op.Tensor) *op.Tensor {
	h := op.Reshape(x, x.Dim(0), x.Dim(1), 2, x.Dim(2)/2)
	y := op.Attention(h, op.Sin(h), op.Tanh(h), op.AttentionConfig{Causal: true})
	return op.Reshape(y, x.Dim(0), x.Dim(1), x.Dim(2))
}

// along is the ops of one operand and a dim.
var along = map[string]func(x *op.Tensor, dim int) *op.Tensor{
	"softmax": op.Softmax, "log_softmax": op.LogSoftmax, "cumsum": op.CumSum,
	"sum":       func(x *op.Tensor, d int) *op.Tensor { return op.Sum(x, d) },
	"mean":      func(x *op.Tensor, d int) *op.Tensor { return op.Mean(x, d) },
	"logsumexp": func(x *op.Tensor, d int) *op.Tensor { return op.LogSumExp(x, d) },
	"centered":  func(x *op.Tensor, d int) *op.Tensor { return op.Sub(x, op.KeepDims(op.Mean(x, d), x, d)) },
	"flip":      func(x *op.Tensor, d int) *op.Tensor { return op.Flip(x, d) },
}

// binary is the ops of two operands of one shape.
var binary = map[string]func(x, y *op.Tensor) *op.Tensor{
	"add": op.Add, "sub": op.Sub, "mul": op.Mul, "maximum": op.Maximum, "swiglu": op.SwiGLU,
}

// compute returns the value of an instruction, before it is laid anywhere.
func (c instr) compute(v, w []*op.Tensor) *op.Tensor {
	x := make([]*op.Tensor, 0, len(c.In)+len(c.Weights))
	for _, i := range c.In {
		x = append(x, v[i])
	}
	for _, i := range c.Weights {
		x = append(x, w[i])
	}
	if f, ok := unary[c.Op]; ok {
		return f(x[0])
	}
	if f, ok := along[c.Op]; ok {
		return f(x[0], c.Dim)
	}
	if f, ok := binary[c.Op]; ok {
		return f(x[0], x[1])
	}
	switch c.Op {
	case "weight":
		return x[0]
	case "bias":
		return op.Add(x[0], x[1])
	case "scale":
		return op.Mul(x[0], x[1])
	case "matmul":
		return op.MatMul(x[0], x[1])
	case "linear":
		return op.Linear(x[0], x[1], x[2])
	case "layer_norm":
		return op.LayerNorm(x[0], x[1], x[2], 1e-2)
	case "rms_norm":
		return op.RMSNorm(x[0], x[1], 1e-2)
	case "embedding":
		return op.Embedding(x[0], x[1])
	case "concat":
		return op.Concat(x, c.Dim)
	case "narrow":
		return op.Narrow(x[0], c.Dim, c.From, c.To)
	case "transpose":
		return op.Transpose(x[0], c.Shape...)
	case "reshape":
		return op.Reshape(x[0], c.Shape...)
	}
	panic("no op " + c.Op)
}

// placing puts the tensors of a program in their requested layouts; on one device it does nothing.
type placing func(x *op.Tensor, at laid) (*op.Tensor, error)

// alone returns tensors unchanged.
func alone(x *op.Tensor, _ laid) (*op.Tensor, error) { return x, nil }

// lay puts tensors on meshes, eager or traced.
func (p *Annotated) lay(x *op.Tensor, at laid) (*op.Tensor, error) {
	if at.Mesh < 0 {
		return x, nil
	}
	y := dtensor.Shard(x, p.Meshes[at.Mesh], at.Places...)
	return y, y.Err()
}

// layChecked is like lay for eager tensors, and checks their layouts afterwards.
func (p *Annotated) layChecked(x *op.Tensor, at laid) (*op.Tensor, error) {
	y, err := p.lay(x, at)
	if err == nil && at.Mesh >= 0 {
		err = p.honoured(y, at)
	}
	return y, err
}

// honoured returns an error if an eager tensor does not have the requested layout.
func (p *Annotated) honoured(x *op.Tensor, at laid) error { return p.honouredBesides(x, at, 0, 1) }

// honouredBesides is like honoured, but allows what ZeRO shards additionally, from a stage on.
func (p *Annotated) honouredBesides(x *op.Tensor, at laid, zero, from int) error {
	if at.Mesh < 0 {
		return nil
	}
	want, err := at.Places.Spec(p.Meshes[at.Mesh], len(x.Shape()))
	if err != nil {
		return err
	}
	m, spec, ok := dtensor.Placements(x)
	as := ok && (spec.Equal(want) || zero >= from && besides(zero, from, m, spec, want))
	if !as || !m.Equal(p.Meshes[at.Mesh]) {
		return fmt.Errorf("got layout %v on %v, want %v on %v", spec, m, want, p.Meshes[at.Mesh])
	}
	return nil
}

// forward returns the program's values; the last is the loss.
func (p *Annotated) forward(inputs, weights []*op.Tensor, place placing) ([]*op.Tensor, error) {
	var v []*op.Tensor
	for i, x := range inputs {
		y, err := place(x, p.Inputs[i].At)
		if err != nil {
			return nil, fmt.Errorf("v%d: %w", i, err)
		}
		v = append(v, y)
	}
	for _, c := range p.Code {
		y, err := place(c.compute(v, weights), c.At)
		if err == nil {
			err = y.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("v%d = %s: %w", len(v), c.Op, err)
		}
		v = append(v, y)
	}
	return v, nil
}

// params makes the weights in a scope.
func (p *Annotated) params(scope op.Scope) ([]*nn.Param, error) {
	in := nn.NewInit(nn.Config{Scope: scope, DType: array.F64, Seed: p.Seed})
	for i, w := range p.Weights {
		std := 0.5
		if len(w.Shape) > 1 {
			std = 1 / math.Sqrt(float64(w.Shape[0]))
		}
		in.Param(fmt.Sprintf("w%d", i), w.Shape, nn.Normal(std))
	}
	return in.Params(), in.Err()
}

// batch returns the inputs of a step.
func (p *Annotated) batch(step int) []array.Array {
	var list []array.Array
	for k, x := range p.Inputs {
		a := array.New(array.F64, x.Shape...)
		if x.Ids > 0 {
			a = array.New(array.I32, x.Shape...)
		}
		for i := range a.Len() {
			a.Set(i, math.Sin(float64(step*37+k*11+i*7)))
			if x.Ids > 0 {
				a.Set(i, float64((i*5+step+k)%x.Ids))
			}
		}
		list = append(list, a)
	}
	return list
}

// unused returns the values that no instruction reads.
func (p *Annotated) unused() []int {
	var list []int
	for i := range len(p.Inputs) + len(p.Code) {
		if !slices.ContainsFunc(p.Code, func(c instr) bool { return slices.Contains(c.In, i) }) {
			list = append(list, i)
		}
	}
	return list
}
