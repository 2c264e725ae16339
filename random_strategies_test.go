package galley_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/strategy"
)

// draw returns a random model, strategy and batch. Little of it divides anything.
func draw(r *rand.Rand) (models.Config, galley.Strategy, array.Shape) {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	heads := pick(1, 2, 3, 4)
	c := models.Config{
		Family: []string{"llama", "qwen2", "gpt2", "mixtral"}[r.IntN(4)], Vocab: 17 +
			r.IntN(20), Hidden: 4 * heads, Intermediate: 5 + r.IntN(20),
		Layers: 1 + r.IntN(4), Heads: heads, KVHeads: heads, Positions: 32, InitStd: 0.3, Tied: r.IntN(2) == 0,
	}
	if heads%2 == 0 && c.Family != "gpt2" {
		c.KVHeads = heads / pick(1, 2)
	}
	s := galley.Strategy{
		DP: pick(1, 1, 2, 3, 4), TP: pick(1, 1, 2, 3), CP: pick(1, 1, 1, 2, 3), PP: min(c.Layers,
			pick(1, 1, 2, 3)), Zero: r.IntN(4), Micro: pick(0, 1, 2, 3, 5),
		Schedule: []string{"fthenb", "1f1b", "interleaved", "zbh1", "zbv",
			"dualpipev"}[r.IntN(6)], Sequence: r.IntN(3) == 0,
		Recompute: []strategy.Recompute{"none", "none", "selective", "full", "full:1",
			"selective:1"}[r.IntN(6)], Context: []string{"ring", "ulysses", "gather"}[r.IntN(3)],
		Offload: []strategy.Offload{{}, {}, {Optimizer: 1}}[r.IntN(3)],
	}
	if r.IntN(3) == 0 {
		s.Offload.Activations, s.Offload.Parameters = float64(r.IntN(4))/3, float64(r.IntN(4))/3
	}
	s.Bucket, s.Host = pick(0, 0, 1, 100, 1<<20), pick(0, 0, 2, 4)
	if s.Shard = pick(0, 0, 2, 3); s.DP*s.CP%max(1, s.Shard) != 0 {
		s.Shard = 0
	}
	if s.Schedule == "interleaved" {
		s.VPP = pick(1, 2)
	}
	if c.Family == "mixtral" {
		c.Experts, c.ExpertsPerToken = 3+r.IntN(3), 1+r.IntN(2)
		if s.DP%2 == 0 {
			s.EP, s.ETP = pick(1, 2), pick(1, s.TP)
		}
	}
	return c, s, array.Shape{1 + r.IntN(9), 5 + r.IntN(14)}
}

// TestRandomStrategies: a strategy that nobody thought of is refused with a reason when it is planned, or has
// the losses of one device.
func TestRandomStrategies(t *testing.T) {
	t.Parallel()
	ran, n := 0, 24
	if testing.Short() {
		n = 6
	}
	if *long {
		n = 400
	}
	for seed := range n {
		c, s, batch := draw(rand.New(rand.NewPCG(7, uint64(seed))))
		t.Run(name(&s), func(t *testing.T) {
			x, err := tryTrial(t, c, array.F64, &s, batch)
			if err == nil {
				_, err = x.Plan(galley.Type{DType: array.I32, Shape: batch})
			}
			if _, bug := errors.AsType[*galley.BugError](err); bug {
				t.Fatalf("seed %d: %+v, batch %v: %v", seed, c, batch, err)
			}
			if err != nil {
				t.Log(err)
				return
			}
			ran++
			one, err := tryTrial(t, c, array.F64, nil, batch)
			if err != nil {
				t.Fatal(err)
			}
			want := one.train(t, 3)
			for step := range 3 {
				m, err := x.Step(x.windows(step))
				if err != nil {
					t.Fatalf("seed %d: %+v, batch %v: %v", seed, c, batch, err)
				}
				for i, got := range []float64{m.Loss, m.GradNorm} {
					if e := got - want[2*step+i]; !(e < 1e-9 && e > -1e-9) {
						t.Fatalf("seed %d: %+v, batch %v: step %d is off by %g", seed, c, batch, step, e)
					}
				}
			}
		})
	}
	if ran < n/3 {
		t.Errorf("of %d strategies %d could be run", n, ran)
	}
}
