package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// UpdateBuffer returns x. The gradient of buffer through it is change, whatever that of x is: so the change
// of a buffer in a training step travels like a gradient, from every micro-batch, device and stage to where
// the buffer is stored. name is that of the buffer.
func UpdateBuffer(x, buffer, change *Tensor, name string) *Tensor {
	return apply1(updateBuffer{Label: name}, x, buffer, change)
}

type updateBuffer struct {
	mover
	Label string
}

// BufferUpdater is implemented by ops whose last operand is added to a buffer; each micro-batch contributes
// its share.
type BufferUpdater interface {
	Op
	UpdatesBuffer()
}

func (updateBuffer) Name() string       { return "update_buffer" }
func (updateBuffer) UpdatesBuffer()     {}
func (updateBuffer) NoGradient() string { return "what is added to a buffer is its gradient" }

func (updateBuffer) Infer(in []Type) ([]Type, error) {
	switch {
	case len(in) != 3:
		return nil, fmt.Errorf("want 3 operands: got %d", len(in))
	case !in[1].Equal(in[2]):
		return nil, fmt.Errorf("change of a buffer: got %v, want %v", in[2], in[1])
	}
	return in[:1], nil
}

// VJP marks each buffer's change with a name of its own, so that equal ones are not merged.
func (o updateBuffer) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{dy[0], Mark(in[2], o.Label+".change"), nil}
}

// Rule splits all three the same way if x and buffer have one shape; otherwise the buffer is not split.
func (updateBuffer) Rule(in []Type) mesh.Rule {
	if in[0].Shape.Equal(in[1].Shape) {
		return sameRule(len(in[0].Shape), 3, 1)
	}
	x, buffer := factors(0, len(in[0].Shape)), ""
	for _, f := range factors(len(in[0].Shape), len(in[1].Shape)) {
		buffer += string(f) + "*"
	}
	return mesh.Rule(x + "," + buffer + "," + buffer + "->" + x)
}

func (updateBuffer) Eval(env *Env, in, out []array.Array) { copyBytes(env, out[0], in[0]) }

func (updateBuffer) Emit(_ *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref { return in[:1] }

func (updateBuffer) Samples() []Sample {
	return []Sample{{Op: updateBuffer{Label: "mean"}, In: []Arg{f32(5), f32(5), f32(5)}},
		{Op: updateBuffer{Label: "count"}, In: []Arg{f32(5, 7), f32(3), f32(3)}}}
}
