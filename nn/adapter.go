package nn

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Adapter is a low-rank update of frozen weights: W + Scale·B·A, LoRA [Hu et al. 2021], or with Magnitude
// also a learned norm per row, DoRA [Liu et al. 2024].
type Adapter struct {
	// A is [rank, in], B [out, rank].
	A, B *Param
	// Magnitude [out], if not nil, is the norm of each row.
	Magnitude *Param
	Scale     float64
	// Dropout is applied to the input of A in training; nil means none.
	Dropout *Dropout
}

// AdapterConfig is the shape of an adapter.
type AdapterConfig struct {
	Rank int
	// Scale multiplies the update.
	Scale float64
	// Magnitude also learns the norm of each row (DoRA).
	Magnitude bool
	Dropout   float64
	// Scope and Seed initialise the adapter as in Config. B starts as zeros, so that the layer's output does
	// not change at first.
	Scope op.Scope
	Seed  uint64
}

// Adaptable is a layer with a weight matrix that an Adapter can update: a Linear or a Dense.
type Adaptable interface {
	// Matrix returns the weights.
	Matrix() *Param
	// Transposed reports whether the weights are stored as [in, out] instead of [out, in].
	Transposed() bool
	// SetAdapter attaches an adapter; nil removes it.
	SetAdapter(a *Adapter)
}

// Matrix returns the weights.
func (l *Linear) Matrix() *Param { return l.Weight }

// Transposed returns false.
func (l *Linear) Transposed() bool { return false }

// SetAdapter attaches an adapter.
func (l *Linear) SetAdapter(a *Adapter) { l.adapter = a }

// Matrix returns the weights.
func (l *Dense) Matrix() *Param { return l.Weight }

// Transposed returns true.
func (l *Dense) Transposed() bool { return true }

// SetAdapter attaches an adapter.
func (l *Dense) SetAdapter(a *Adapter) { l.adapter = a }

// NewAdapter creates an adapter for a layer, with parameters below name. SetAdapter attaches it.
func NewAdapter(l Adaptable, name string, c AdapterConfig) (*Adapter, error) {
	w := l.Matrix()
	out, in := w.Type.Shape[0], w.Type.Shape[1]
	if l.Transposed() {
		out, in = in, out
	}
	n := &Init{list: &list{config: Config{Scope: c.Scope, DType: w.Type.DType, Seed: c.Seed},
		names: map[string]bool{}}, prefix: name + "."}
	a := &Adapter{Scale: c.Scale,
		A: n.At("lora_A").Param("weight", array.Shape{c.Rank, in}, Uniform(1/math.Sqrt(float64(max(in, 1))))),
		B: n.At("lora_B").Param("weight", array.Shape{out, c.Rank}, Constant(0))}
	if c.Magnitude {
		a.Magnitude = n.At("lora_magnitude_vector").Param("weight", array.Shape{out}, Constant(1))
		switch {
		case c.Scope == nil || n.err != nil:
		case w.Value == nil:
			n.err = fmt.Errorf("parameter %q has no value: the lengths of its rows are not known", w.Name)
		default:
			n.err = n.set(a.Magnitude, lengths(w.Value, l.Transposed()))
		}
	}
	for _, p := range a.Params() {
		p.mode = w.mode
	}
	if c.Dropout > 0 {
		a.Dropout = &Dropout{Rate: c.Dropout, Key: keyOf(c.Seed, name+".lora_dropout"), mode: w.mode}
	}
	return a, n.err
}

// Params returns the trainable parameters of the adapter.
func (a *Adapter) Params() []*Param {
	list := []*Param{a.A, a.B}
	if a.Magnitude != nil {
		list = append(list, a.Magnitude)
	}
	return list
}

// lengths returns the norms of the rows of weights, one for each output.
func lengths(w *op.Tensor, transposed bool) *op.Tensor {
	dim := 1
	if transposed {
		dim = 0
	}
	return op.Sqrt(op.Sum(op.Square(w), dim))
}

// Merged returns the layer's weights with the adapter merged in.
func (a *Adapter) Merged(l Adaptable) *op.Tensor {
	w := a.changed(l)
	if a.Magnitude == nil {
		return w
	}
	gain := op.Div(a.Magnitude.Value, lengths(w, l.Transposed()))
	if l.Transposed() {
		return op.Mul(w, gain)
	}
	return op.Mul(w, op.Unsqueeze(gain, 1))
}

// changed returns the weights with the low-rank update.
func (a *Adapter) changed(l Adaptable) *op.Tensor {
	x, y := a.B.Value, a.A.Value
	if l.Transposed() { // (B·A)ᵀ
		return op.Add(l.Matrix().Value, op.MulScalar(op.MatMulT(y, x, true, true), a.Scale))
	}
	return op.Add(l.Matrix().Value, op.MulScalar(op.MatMul(x, y), a.Scale))
}

// forward returns the layer with the adapter, without its bias; product computes that of the weights alone.
func (a *Adapter) forward(x *op.Tensor, l Adaptable, product func(x *op.Tensor) *op.Tensor) *op.Tensor {
	dropped := a.Dropout.Forward(x)
	y := product(x)
	change := op.MulScalar(op.MatMulT(op.MatMulT(dropped, a.A.Value, false, true), a.B.Value, false, true),
		a.Scale)
	if a.Magnitude == nil {
		return op.Add(y, change)
	}
	// The norms of rows are treated as constants [Liu et al. 2024, section 4.3].
	gain := op.Div(a.Magnitude.Value, op.StopGradient(lengths(a.changed(l), l.Transposed())))
	if !a.Dropout.Active() {
		return op.Mul(op.Add(y, change), gain)
	}
	less := op.Mul(product(dropped), op.AddScalar(gain, -1))
	return op.Add(op.Add(y, less), op.Mul(change, gain))
}
