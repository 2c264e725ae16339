package op

import "github.com/galley-ml/galley/internal/ir"

// Precision describes which precision an op wants for its float operands in mixed precision, when a program
// computes in 16-bit floats with f32 parameters.
type Precision uint8

const (
	// Follows: the op computes in the dtype of its operands; if some of them are 16-bit, all become so.
	Follows Precision = iota
	// Narrows: the op gains from 16-bit operands, as products do.
	Narrows
	// Widens: the op loses too much precision with them, as sums and exponentials do.
	Widens
	// Mixes: the op takes them beside f32 and keeps in f32 what needs it, as norms and losses do.
	Mixes
	// NarrowsResult: the op reads f32 but its result continues in 16 bits, as a lookup of few rows of a table
	// does.
	NarrowsResult
)

// PrecisionOf returns the precision that o wants; for most ops it is Follows.
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
