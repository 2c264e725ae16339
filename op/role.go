package op

import (
	"reflect"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/triton"
)

// Roled is implemented by ops that kernels over several nodes can include. Code generation for devices with
// such kernels matches patterns by these roles, never by an op's name.
type Roled interface {
	// Role returns one of the types below.
	Role() any
}

// RoleOf returns the role of an op in kernels over several nodes; nil if it has none.
func RoleOf(o Op) any {
	if r, ok := o.(Roled); ok {
		return r.Role()
	}
	return nil
}

// AddRole adds two arrays.
type AddRole struct{}

// ReshapeRole changes the shape.
type ReshapeRole struct{}

// MarkRole returns its operand unchanged, and annotates it.
type MarkRole struct{}

// MatMulRole multiplies rows by a matrix, each side transposed or not.
type MatMulRole struct{ TransX, TransY bool }

// QuantizedLinearRole multiplies rows by a quantized matrix: integers in groups, each with a scale, around
// the middle of their range.
type QuantizedLinearRole struct{ Bits, Group int }

// PagedAttentionRole is PagedAttention.
type PagedAttentionRole PagedAttentionConfig

// SplitRole splits a dim into parts of these sizes.
type SplitRole struct {
	Dim   int
	Sizes []int
}

// Halves reports whether this splits the last of rank dims into two equal parts.
func (c SplitRole) Halves(rank int) bool {
	return c.Dim == rank-1 && len(c.Sizes) == 2 && c.Sizes[0] == c.Sizes[1]
}

// ConcatRole concatenates arrays along a dim.
type ConcatRole struct{ Dim int }

// RMSNormRole is RMSNorm, RMSNormGradRole its gradient.
type (
	RMSNormRole     struct{ Eps float64 }
	RMSNormGradRole struct{}
)

// SwiGLURole is SwiGLU, SwiGLUGradRole its gradient.
type (
	SwiGLURole     struct{}
	SwiGLUGradRole struct{}
)

// CrossEntropyRole is a cross-entropy over all classes.
type CrossEntropyRole struct{ of crossEntropy }

// CrossEntropyGradRole is the gradient of a CrossEntropyRole by its logits, of all classes or of a part.
type CrossEntropyGradRole struct{ of crossEntropyGrad }

// Whole reports whether the gradient is of all classes.
func (g CrossEntropyGradRole) Whole() bool { return g.of.Total == 0 && g.of.Offset == 0 }

// Of reports whether this is the gradient of the loss l.
func (g CrossEntropyGradRole) Of(l CrossEntropyRole) bool {
	return l.of.IgnoreIndex == g.of.IgnoreIndex && l.of.LabelSmoothing == g.of.LabelSmoothing
}

// EmitCount writes the number of labels that are not ignored.
func (l CrossEntropyRole) EmitCount(w *hlo.Writer, labels hlo.Ref, d array.DType) hlo.Ref {
	return l.of.emitCount(w, labels, d)
}

// EmitLoss writes the loss from the logarithm of each row's sum of exponentials.
func (l CrossEntropyRole) EmitLoss(w *hlo.Writer, logits, labels, logSum hlo.Ref) hlo.Ref {
	return l.of.emitLoss(w, logits, labels, logSum, w.Constant(logSum.Type, 0))
}

// Target describes the one-hot or smoothed target of the softmax over classes.
func (g CrossEntropyGradRole) Target(classes int) triton.Target { return g.of.target(classes) }

// EmitLabels writes the labels as i32.
func (g CrossEntropyGradRole) EmitLabels(w *hlo.Writer, labels hlo.Ref) hlo.Ref {
	return g.of.emitLabels(w, labels)
}

// EmitRows writes the gradient of each row's loss, from the operands of the gradient.
func (g CrossEntropyGradRole) EmitRows(w *hlo.Writer, in []hlo.Ref) hlo.Ref {
	return g.of.emitRows(w, in)
}

// RoPERole is RoPE.
type RoPERole struct{ of rope }

// ByHalves reports whether the rotation pairs elements half a head apart, at consecutive positions from 0 or
// another constant offset, over whole heads of such an array.
func (r RoPERole) ByHalves(heads array.Shape) bool {
	return !r.of.Positions && !r.of.DynamicOffset && r.of.Style != interleaved && r.of.dim(heads) == heads[3]
}

// Equal reports whether both rotate by the same angles.
func (r RoPERole) Equal(other RoPERole) bool {
	return reflect.DeepEqual(r.of, other.of)
}

// EmitTable writes the cosines and sines for an array of heads.
func (r RoPERole) EmitTable(w *hlo.Writer, heads array.Shape) (cos, sin hlo.Ref) {
	return r.of.emitTable(w, nil, hlo.Ref{Type: hlo.Type{DType: array.F32, Shape: heads}})
}
