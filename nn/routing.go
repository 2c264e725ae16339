package nn

import "github.com/galley-ml/galley/op"

// Routing configures how a mixture chooses and weighs experts. The zero value is Mixtral's: the experts with
// the largest softmax probabilities, weighted by these divided by their sum.
type Routing struct {
	// Sigmoid scores every expert independently by a sigmoid, instead of a softmax over all.
	Sigmoid bool
	// Groups, if more than 1, divides the experts into groups of neighbours. A token chooses its experts from
	// TopGroups groups only: those whose GroupBest best scores have the largest sum.
	Groups, TopGroups, GroupBest int
	// RawWeights uses the scores of the chosen experts as weights; otherwise they are divided by their sum.
	RawWeights bool
	// SumShift is added to the sum before weights are divided by it; SumFloor is its minimum after that.
	SumFloor, SumShift float64
	// Scale multiplies the weights; 0 means 1.
	Scale float64
}

// route returns the chosen experts [..., perToken] and their weights.
func (m *MoE) route(tokens *op.Tensor) (weights, experts *op.Tensor) {
	logits := m.Router.Forward(tokens)
	if logits.Err() != nil {
		return logits, logits
	}
	// The sums of scores are kept in float32 whatever the model's dtype, as transformers does.
	logits = op.Cast(logits, logits.DType().Compute())
	r := m.Config.Routing
	scores := op.Softmax(logits, -1)
	if r.Sigmoid {
		scores = op.Sigmoid(logits)
	}
	weights, experts = m.choose(scores)
	if weights.Err() != nil {
		return weights, weights
	}
	m.report(logits, experts)
	return op.Cast(r.weigh(weights), tokens.DType()), experts
}

// choose returns the chosen experts and their scores.
func (m *MoE) choose(scores *op.Tensor) (weights, experts *op.Tensor) {
	r := m.Config.Routing
	if m.Bias == nil && r.Groups <= 1 {
		return op.TopK(scores, m.Config.PerToken, -1)
	}
	ranks := op.StopGradient(scores)
	if m.Bias != nil {
		bias := op.Reshape(m.Bias.Value, m.Config.Experts)
		ranks = op.Add(ranks, op.StopGradient(op.Cast(bias, scores.DType())))
	}
	if r.Groups > 1 {
		ranks = r.limit(ranks)
	}
	_, experts = op.TopK(ranks, m.Config.PerToken, -1)
	if experts.Err() != nil {
		return experts, experts
	}
	return op.TakeAlongDim(scores, experts, -1), experts
}

// limit returns ranks with 0 outside the best groups, like transformers.
func (r Routing) limit(ranks *op.Tensor) *op.Tensor {
	if ranks.Err() != nil {
		return ranks
	}
	shape := ranks.Shape()
	n := len(shape) - 1
	grouped := op.Reshape(ranks, append(shape[:n:n], r.Groups, shape[n]/r.Groups)...)
	best, _ := op.TopK(grouped, r.GroupBest, -1)
	if best.Err() != nil {
		return best
	}
	_, groups := op.TopK(op.Sum(best, -1), r.TopGroups, -1)
	if groups.Err() != nil {
		return groups
	}
	chosen := op.Sum(op.Cast(op.OneHot(groups, r.Groups), ranks.DType()), -2)
	return op.Reshape(op.Mul(grouped, op.Unsqueeze(chosen, -1)), shape...)
}

// weigh returns the weights of the chosen experts from their scores.
func (r Routing) weigh(weights *op.Tensor) *op.Tensor {
	if !r.RawWeights {
		sum := op.Unsqueeze(op.Sum(weights, -1), -1)
		if r.SumShift != 0 {
			sum = op.AddScalar(sum, r.SumShift)
		}
		if r.SumFloor != 0 {
			sum = op.Maximum(sum, op.Const(sum, r.SumFloor))
		}
		weights = op.Div(weights, sum)
	}
	if r.Scale != 0 && r.Scale != 1 {
		weights = op.MulScalar(weights, r.Scale)
	}
	return weights
}
