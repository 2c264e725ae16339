package models

import (
	"fmt"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// LossConfig adds terms to the cross-entropy loss of a language model. The zero value adds nothing.
type LossConfig struct {
	// LabelSmoothing is the fraction of a label's weight that is spread evenly over the vocabulary.
	LabelSmoothing float64
	// LogitZ is the weight of the z-loss, the mean square of the logits' log-sum-exp, which keeps logits from
	// growing [Chowdhery et al. 2022].
	LogitZ float64
	// RouterBalance is the weight of the load-balancing loss: the sum over experts of the fraction of choices
	// that they get times the mean probability that the router gives them, times the number of experts [Fedus et
	// al. 2021], over all layers together as in transformers. BySequence computes it for each sequence and
	// averages [DeepSeek-AI 2024], which does not depend on how a batch is split into micro-batches. The other
	// does, so that splitting is refused.
	RouterBalance float64
	BySequence    bool
	// RouterZ is the weight of the router z-loss, the mean square of the routers' log-sum-exp [Zoph et al.
	// 2022].
	RouterZ float64
	// Ahead is the weight of the losses of the multi-token prediction layers, of which a model has Config.Ahead.
	Ahead float64
}

func (c LossConfig) routers() bool { return c.RouterBalance != 0 || c.RouterZ != 0 }

// WithLoss returns the same model, with the same parameters, with terms added to its loss.
func WithLoss(m Model, c LossConfig) (Model, error) {
	d, ok := m.(*decoder)
	switch {
	case !ok:
		return nil, fmt.Errorf("models: loss of a %T: want a model of this package", m)
	case !(c.LabelSmoothing >= 0 && c.LabelSmoothing <= 1):
		return nil, fmt.Errorf("models: label smoothing: got %v, want 0 to 1", c.LabelSmoothing)
	case !(c.LogitZ >= 0 && c.RouterBalance >= 0 && c.RouterZ >= 0):
		return nil, fmt.Errorf(
			"models: weights of losses: got %v, %v and %v, want 0 or more",
			c.LogitZ,
			c.RouterBalance,
			c.RouterZ,
		)
	case d.config.Task != Predict:
		return nil, fmt.Errorf("models: %s classifies: these losses are of language models", d.config.Family)
	case !(c.Ahead >= 0) || c.Ahead > 0 && len(d.ahead) == 0:
		return nil, fmt.Errorf(
			"models: weight %v of further tokens: %s has %d layers that predict them: want Config.Ahead",
			c.Ahead,
			d.config.Family,
			len(d.ahead),
		)
	case c.routers() && len(d.routers()) == 0:
		return nil, fmt.Errorf("models: %s has no routers: want no loss of theirs", d.config.Family)
	}
	n := *d
	n.loss = c
	return &n, nil
}

// router is a block that may have experts.
type router interface {
	// observed returns the same block with f called for every routing decision; false if it has no experts.
	observed(f func(nn.Routed)) (block, bool)
}

func (b residual) observed(f func(nn.Routed)) (block, bool) {
	e, ok := b.mlp.(*nn.MoE)
	if ok {
		b.mlp = e.Observed(f)
	}
	return b, ok
}

// routers returns the numbers of the layers with experts.
func (m *decoder) routers() (layers []int) {
	for i, b := range m.blocks {
		if r, ok := b.(router); ok {
			if _, ok := r.observed(nil); ok {
				layers = append(layers, i)
			}
		}
	}
	return layers
}

// watched returns the model with its routing decisions appended to a list.
func (m *decoder) watched(list *[]nn.Routed) *decoder {
	return m.eachBlock(func(b block) block {
		if r, ok := b.(router); ok {
			b, _ = r.observed(func(x nn.Routed) { *list = append(*list, x) })
		}
		return b
	})
}

// warped returns the same loss, with an extra gradient: that of half the mean square of each position's
// largest logit, times 1e-4.
func warped(loss, logits *op.Tensor) *op.Tensor {
	draw := op.MulScalar(op.Mean(op.Square(op.Cast(op.AMax(logits, -1), loss.DType()))), 0.5e-4)
	return op.Add(loss, op.Sub(draw, op.StopGradient(draw)))
}

// tokenLoss returns the loss of ids and labels in the order in which the model computes.
func (m *decoder) tokenLoss(ids, labels *op.Tensor) *op.Tensor {
	c := m.loss
	var routed []nn.Routed
	if c.routers() {
		m = m.watched(&routed)
	}
	stream := m.stream(ids, nil)
	logits := m.logits(through(m.norm, stream))
	loss, lse := op.CrossEntropyLSE(logits, labels, op.CrossEntropyConfig{LabelSmoothing: c.LabelSmoothing})
	if loss.Err() != nil {
		return loss
	}
	if m.warp {
		loss = warped(loss, logits)
	}
	if c.LogitZ != 0 {
		loss = op.Add(loss, op.MulScalar(meanCounted(op.Square(lse), labels), c.LogitZ))
	}
	if c.Ahead != 0 {
		loss = op.Add(loss, op.MulScalar(m.aheadLoss(stream, ids, labels), c.Ahead))
	}
	if c.RouterZ != 0 {
		loss = op.Add(loss, op.MulScalar(routerZ(routed), c.RouterZ))
	}
	if c.RouterBalance != 0 {
		loss = op.Add(loss, op.MulScalar(routerBalance(routed, ids.Dim(0), c.BySequence), c.RouterBalance))
	}
	return loss
}

// meanCounted returns the mean of x over the labels that are not ignored.
func meanCounted(x, labels *op.Tensor) *op.Tensor {
	counts := op.NotEqual(labels, op.Const(labels, IgnoreLabel))
	one := op.Cast(counts, x.DType())
	return op.Div(op.Sum(op.Where(counts, x, op.Const(x, 0))), op.Sum(one))
}

// routerZ returns the mean over tokens and layers.
func routerZ(routed []nn.Routed) *op.Tensor {
	var sum *op.Tensor
	for _, r := range routed {
		x := op.Mean(op.Square(op.LogSumExp(r.Logits, -1)))
		if sum != nil {
			x = op.Add(sum, x)
		}
		sum = x
	}
	return op.MulScalar(sum, 1/float64(len(routed)))
}

// routerBalance returns the load-balancing loss, perToken if the load is even: over all tokens of all layers,
// or the mean over sequences.
func routerBalance(routed []nn.Routed, rows int, bySequence bool) *op.Tensor {
	if !bySequence {
		rows = 1
	}
	return op.Mean(unevenness(routed, rows))
}

// unevenness returns routerBalance for each of groups of tokens.
func unevenness(routed []nn.Routed, groups int) *op.Tensor {
	var shares, chances *op.Tensor // [groups, experts], sums over layers of means over tokens
	for _, r := range routed {
		n, k := r.Logits.Dim(-1), r.Chosen.Dim(-1)
		tokens := r.Logits.Shape().Len() / n / groups
		chance := op.Mean(op.Reshape(op.Softmax(r.Logits, -1), groups, tokens, n), 1)
		hot := op.Cast(op.OneHot(op.Reshape(r.Chosen, groups, tokens*k), n), chance.DType())
		share := op.MulScalar(op.Sum(hot, 1), 1/float64(tokens))
		if shares != nil {
			share, chance = op.Add(shares, share), op.Add(chances, chance)
		}
		shares, chances = share, chance
	}
	layers, n := float64(len(routed)), float64(shares.Dim(1))
	uneven := op.Sum(op.Mul(op.StopGradient(shares), chances), 1)
	return op.MulScalar(uneven, n/(layers*layers))
}
