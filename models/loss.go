package models

import (
	"fmt"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// LossConfig is what the loss of a language model has besides the cross-entropy of its labels. The zero value
// is nothing.
type LossConfig struct {
	// LabelSmoothing is the part of a label's weight that is spread evenly over the vocabulary.
	LabelSmoothing float64
	// LogitZ weighs the mean square of the logarithm of the logits' sum of exponentials, which keeps logits from
	// growing [Chowdhery et al. 2022].
	LogitZ float64
	// RouterBalance weighs how uneven the load of experts is: of all experts, the sum of the share of choices
	// that they get times the mean probability that the router gives them, times their number [Fedus et al.
	// 2021], over all layers together as transformers has it. BySequence takes it for each sequence, and the
	// mean of these [DeepSeek-AI 2024]: it does not depend on how a batch is cut into micro-batches, which the
	// other does, so that cutting is refused.
	RouterBalance float64
	BySequence    bool
	// RouterZ weighs the mean square of the logarithm of the routers' sums of exponentials [Zoph et al. 2022].
	RouterZ float64
	// Ahead weighs the losses of the layers that predict further tokens, of which a model has Config.Ahead.
	Ahead float64
}

func (c LossConfig) routers() bool { return c.RouterBalance != 0 || c.RouterZ != 0 }

// WithLoss returns the same model, with the same parameters, whose loss has more.
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

// router is a block that has experts.
type router interface {
	// observed returns the same block, which reports what its router decides; false where it has none.
	observed(f func(nn.Routed)) (block, bool)
}

func (b residual) observed(f func(nn.Routed)) (block, bool) {
	e, ok := b.mlp.(*nn.MoE)
	if ok {
		b.mlp = e.Observed(f)
	}
	return b, ok
}

// routers returns the numbers of the layers that have experts.
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

// watched returns the model, which adds what its routers decide to a list.
func (m *decoder) watched(list *[]nn.Routed) *decoder {
	return m.eachBlock(func(b block) block {
		if r, ok := b.(router); ok {
			b, _ = r.observed(func(x nn.Routed) { *list = append(*list, x) })
		}
		return b
	})
}

// warped returns the same loss, whose gradient also has that of half the mean square of each position's
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

// meanCounted returns the mean of x over the labels that count.
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

// routerBalance returns how uneven the load of experts is, 1·perToken where it is even: of all tokens of all
// layers, or the mean over sequences.
func routerBalance(routed []nn.Routed, rows int, bySequence bool) *op.Tensor {
	if !bySequence {
		rows = 1
	}
	return op.Mean(unevenness(routed, rows))
}

// unevenness returns routerBalance of each of so many groups of tokens.
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
