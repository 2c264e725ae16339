package op

import "github.com/galley-ml/galley/internal/ir"

// Precision is what an op wants of its float operands where a program computes in 16-bit floats with f32
// parameters.
type Precision uint8

const (
	// Follows is an op that computes in whatever it is given; where some operands are 16-bit, all become so.
	Follows Precision = iota
	// Narrows is an op that gains from 16-bit operands: a product.
	Narrows
	// Widens is an op that loses too much with them: a sum, an exponential.
	Widens
	// Mixes is an op that takes them beside f32 and keeps what needs f32 in f32 by itself: a norm, a loss.
	Mixes
	// NarrowsResult is an op that reads f32 but whose result continues in 16 bits: a table of which few rows
	// are read.
	NarrowsResult
)

// PrecisionOf returns what o wants; most ops are Follows.
func PrecisionOf(o ir.Op) Precision {
	if p, ok := o.(interface{ precision() Precision }); ok {
		return p.precision()
	}
	return Follows
}

func (matmul) precision() Precision        { return Narrows }
func (linear) precision() Precision        { return Narrows }
func (einsum) precision() Precision        { return Narrows }
func (conv) precision() Precision          { return Narrows }
func (convInputGrad) precision() Precision { return Narrows }
func (groupedMatMul) precision() Precision { return Narrows }
func (attention) precision() Precision     { return Narrows }

func (rmsNorm) precision() Precision      { return Mixes }
func (layerNorm) precision() Precision    { return Mixes }
func (crossEntropy) precision() Precision { return Mixes }

func (embedding) precision() Precision { return NarrowsResult }

func (exp) precision() Precision        { return Widens }
func (expm1) precision() Precision      { return Widens }
func (log) precision() Precision        { return Widens }
func (log1p) precision() Precision      { return Widens }
func (pow) precision() Precision        { return Widens }
func (reciprocal) precision() Precision { return Widens }
func (rsqrt) precision() Precision      { return Widens }
func (softplus) precision() Precision   { return Widens }
func (erf) precision() Precision        { return Widens }
func (sum) precision() Precision        { return Widens }
func (prod) precision() Precision       { return Widens }
func (mean) precision() Precision       { return Widens }
func (cumSum) precision() Precision     { return Widens }
func (variance) precision() Precision   { return Widens }
func (softmax) precision() Precision    { return Widens }
func (logSoftmax) precision() Precision { return Widens }
func (logSumExp) precision() Precision  { return Widens }
func (mseLoss) precision() Precision    { return Widens }
func (sumSquares) precision() Precision { return Widens }
