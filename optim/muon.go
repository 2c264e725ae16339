package optim

import (
	"math"
	"path"

	"github.com/galley-ml/galley/op"
)

// Muon steps by the orthogonalised momentum of a matrix [Jordan et al. 2024], like PyTorch's. It is for the
// matrices inside a model; embeddings, heads, norms and biases are updated by Rest. Each matrix of a bank,
// such as those of experts, is orthogonalised by itself. A sharded matrix is gathered for the iteration; its
// momentum stays sharded.
type Muon struct {
	// Momentum is the decay of the momentum; zero means 0.95. Plain turns Nesterov momentum off.
	Momentum float64
	Plain    bool
	// Steps is the number of Newton-Schulz iterations; zero means 5.
	Steps int
	// WeightDecay shrinks every matrix by LR·WeightDecay per step.
	WeightDecay float64
	// MatchAdamW scales updates to the usual magnitude of AdamW's, so that its learning rate can be reused.
	// Otherwise the update of a tall matrix is scaled by the square root of its aspect ratio.
	MatchAdamW bool
	// Rest updates all other parameters with RestLR times the learning rate; nil means AdamW, and a RestLR of
	// zero means 1.
	Rest   Optimizer
	RestLR float64
	// RestParams are name patterns, as in Group, of matrices that Rest updates; nil means embeddings and
	// heads by their usual names.
	RestParams []string
}

// outerNames are the patterns of embeddings and heads.
var outerNames = []string{"*embed*", "lm_head.*", "*.wte.*", "*.wpe.*", "head.*"}

// The coefficients of the Newton-Schulz iteration with a polynomial of the fifth degree.
var muonCoefficients = [3]float64{3.4445, -4.7750, 2.0315}

const muonEps = 1e-7

func (m Muon) rest() Optimizer {
	if m.Rest == nil {
		return AdamW{}
	}
	return m.Rest
}

// Slots returns 1, the momentum, or as many as Rest has.
func (m Muon) Slots() int { return max(1, m.rest().Slots()) }

// Named returns the optimizer of the named parameter.
func (m Muon) Named(name string) Optimizer {
	patterns := m.RestParams
	if patterns == nil {
		patterns = outerNames
	}
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok {
			return m.other()
		}
	}
	inner := m
	inner.RestParams = []string{}
	return muonInner{inner}
}

// other returns Rest with its learning rate factor, padded to as many slots as Muon has.
func (m Muon) other() Optimizer {
	return member{Optimizer: m.rest(), rate: orElse(m.RestLR, 1), slots: m.Slots()}
}

// SlotTypes returns the slot types of a parameter, which depend on whether it is an inner matrix.
func (m Muon) SlotTypes(p op.Type) []op.Type { return muonInner{m}.SlotTypes(p) }

// Update updates a parameter without a name.
func (m Muon) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	return muonInner{m}.Update(p, grad, slots, s)
}

// muonInner is Muon for a parameter that RestParams does not match; vectors are still updated by Rest.
type muonInner struct{ Muon }

func (m muonInner) Named(string) Optimizer { return m }

func (m muonInner) SlotTypes(p op.Type) []op.Type {
	if len(p.Shape) < 2 {
		return SlotTypes(m.other(), "", p)
	}
	return filled([]op.Type{p}, p, m.Slots())
}

func (m muonInner) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	if len(p.Shape()) < 2 {
		return m.other().Update(p, grad, slots, s)
	}
	dtype := p.DType().Compute()
	beta := orElse(m.Momentum, 0.95)
	g := op.Mul(op.Cast(grad, dtype), op.ExpandAs(op.Cast(s.Scale, dtype), grad))
	average := mixed(op.Cast(slots[0], dtype), g, beta)
	update := average
	if !m.Plain {
		update = mixed(average, g, beta)
	}
	lr := op.Cast(s.LR, dtype)
	rate := op.ExpandAs(op.MulScalar(lr, m.scale(p.Shape())), p)
	next := op.Sub(decayed(op.Cast(p, dtype), lr, m.WeightDecay), op.Mul(m.orthogonal(update), rate))
	kept := append([]*op.Tensor{op.Cast(average, slots[0].DType())}, slots[1:]...)
	return op.Cast(next, p.DType()), kept
}

// mixed returns the weighted mean of x and y: keep times x plus 1-keep times y.
func mixed(x, y *op.Tensor, keep float64) *op.Tensor {
	return op.Add(op.MulScalar(x, keep), op.MulScalar(y, 1-keep))
}

// scale returns the factor of the learning rate for matrices of a shape.
func (m Muon) scale(shape []int) float64 {
	rows, columns := float64(shape[len(shape)-2]), float64(shape[len(shape)-1])
	if m.MatchAdamW {
		return 0.2 * math.Sqrt(max(rows, columns))
	}
	return math.Sqrt(max(1, rows/max(columns, 1)))
}

// orthogonal returns an approximation of the orthogonal matrix nearest to x, whose singular values are near
// 1.
func (m Muon) orthogonal(x *op.Tensor) *op.Tensor {
	n := len(x.Shape())
	tall := x.Dim(n-2) > x.Dim(n-1)
	size := op.Sqrt(op.Sum(op.Square(x), n-2, n-1))
	for range 2 {
		size = op.Unsqueeze(size, len(size.Shape()))
	}
	x = op.Div(x, atLeast(size, muonEps))
	a, b, c := muonCoefficients[0], muonCoefficients[1], muonCoefficients[2]
	for range m.iterations() {
		gram := op.MatMulT(x, x, tall, !tall) // the Gram matrix of the shorter side
		poly := op.Add(op.MulScalar(gram, b), op.MulScalar(op.MatMul(gram, gram), c))
		left, right := poly, x
		if tall {
			left, right = x, poly
		}
		x = op.Add(op.MulScalar(x, a), op.MatMul(left, right))
	}
	return x
}

func (m Muon) iterations() int {
	if m.Steps == 0 {
		return 5
	}
	return max(m.Steps, 0)
}
