package models

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"

	"github.com/galley-ml/galley/nn"
)

// WithCapacity returns the same model, with the same parameters, with an expert capacity: each expert takes
// at most capacity times its even share of a batch's tokens; later tokens lose the expert. A batch is then
// not split into micro-batches.
func WithCapacity(m Model, capacity float64) (Model, error) {
	d, ok := m.(*decoder)
	if !ok || len(d.routers()) == 0 {
		return nil, fmt.Errorf("models: capacity of experts: %s has none", m.Config().Family)
	}
	if !(capacity > 0) {
		return nil, fmt.Errorf("models: capacity of experts: got %v, want more than 0", capacity)
	}
	return d.eachBlock(func(b block) block { return b.shared(Layout{Experts: 1, Capacity: capacity}) }), nil
}

// RouterLoads returns, for each layer with experts, the fraction of choices [rows, experts] that each expert
// gets of each row of ids; see RouterStats.
func RouterLoads(m Model, ids *op.Tensor) []*op.Tensor {
	loads, _ := RouterBalance(m, ids)
	return loads
}

// RouterBalance returns RouterLoads, and for each row [rows] the load-balancing loss: what a loss with
// LossConfig.RouterBalance of 1 and BySequence adds, as a mean over rows.
func RouterBalance(m Model, ids *op.Tensor) (loads []*op.Tensor, balance *op.Tensor) {
	d, ok := m.(*decoder)
	if !ok || len(d.routers()) == 0 {
		return nil, nil
	}
	var routed []nn.Routed
	if y := d.watched(&routed).Forward(ids); y.Err() != nil {
		return []*op.Tensor{y}, y
	}
	var list []*op.Tensor
	rows := ids.Dim(0)
	for _, r := range routed {
		n := r.Chosen.Shape().Len() / rows
		hot := op.OneHot(op.Reshape(r.Chosen, rows, n), r.Logits.Dim(-1))
		list = append(list, op.MulScalar(op.Sum(op.Cast(hot, r.Logits.DType()), 1), 1/float64(n)))
	}
	return list, unevenness(routed, rows)
}

// RouterStat describes the load of a layer's experts.
type RouterStat struct {
	// Loads is the fraction of choices that each expert gets.
	Loads []float64
	// Entropy is that of the loads, relative to its maximum: 1 is even, 0 is a single expert.
	Entropy float64
	// Dropped is the fraction of choices beyond the experts' capacity.
	Dropped float64
}

// RouterStats returns statistics of a batch's loads, with the given number of choices per row; a capacity of
// 0 drops none.
func RouterStats(loads []array.Array, choices int, capacity float64) []RouterStat {
	list := make([]RouterStat, len(loads))
	for i, l := range loads {
		rows, n := l.Shape()[0], l.Shape()[1]
		s := RouterStat{Loads: make([]float64, n)}
		for k := range l.Len() {
			s.Loads[k%n] += l.At(k) / float64(rows)
		}
		all := float64(rows * choices)
		room := math.Ceil(capacity*all/float64(n)) / all
		for _, x := range s.Loads {
			if x > 0 && n > 1 {
				s.Entropy -= x * math.Log(x) / math.Log(float64(n))
			}
			if capacity > 0 {
				s.Dropped += max(0, x-room)
			}
		}
		list[i] = s
	}
	return list
}
