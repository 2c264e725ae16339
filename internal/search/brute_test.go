package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
)

// brute prices every strategy of the space.
func brute(c Config) (best Plan, found bool, tried int) {
	s := newSpace(c.Workload, c.Cluster, c.Pin)
	w := &worker{s: &search{c: c, space: s}, p: c.Pricer}
	for _, x := range s.cells() {
		for _, o := range s.orders(x) {
			x.VPP, x.Schedule = o.vpp, o.schedule
			for _, x.Layers = range w.cuts(x) {
				for _, z := range s.shares(x) {
					x.Zero, x.Shard = z.zero, z.shard
					for _, line := range s.reliefs(x) {
						for _, r := range line {
							x.Recompute, x.Offload = r.recompute, r.offload
							e, err := c.Pricer.Exact(x)
							tried++
							if p := (Plan{x, e}); err == nil && e.Fits && (!found || p.before(best)) {
								best, found = p, true
							}
						}
					}
				}
			}
		}
	}
	return best, found, tried
}

// randomCase returns a small model on a small cluster whose memory may or may not be enough.
func randomCase(t testing.TB, seed uint64) Config {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	pick := func(list ...int) int { return list[r.IntN(len(list))] }
	m := plan.Model{
		Name: "small", Layers: 1 + r.IntN(6), Hidden: 64 * pick(4, 6, 8, 16), Heads: pick(4, 6,
			8), FFN: 64 * pick(8, 16, 24), Vocab: 128 * pick(4, 8, 250),
		Gated: r.IntN(2) == 0, LayerNorm: r.IntN(2) == 0, Tied: r.IntN(2) == 0,
	}
	m.HeadDim = 64
	if r.IntN(2) == 0 {
		m.KVHeads = m.Heads / 2
	}
	if r.IntN(4) == 0 {
		m.Experts = plan.Experts{Count: pick(2, 4), TopK: 1 + r.IntN(2), FFN: 512, Shared: pick(0, 512)}
	}
	devices := [][2]int{{1, 1}, {1, 2}, {1, 4}, {2, 2}, {1, 6}, {2, 4}, {1, 8}}[r.IntN(7)]
	memory := 1.5 + 3*math.Pow(r.Float64(), 3) // GB: the driver alone takes one and a half
	line := fmt.Sprintf("%dx%d Some mem=%.3fGB bw=%dGB/s bf16=%dT units=64 pcie=%dGB/s eth=%dG nics=1",
		devices[0], devices[1], memory, pick(1000, 2000), pick(50, 300), pick(5, 50), pick(10, 100))
	if r.IntN(2) == 0 {
		line += fmt.Sprintf(" bus=%dGB/s", pick(4, 25))
	}
	c, err := cluster.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	w := plan.Workload{Model: m, Batch: pick(2, 4, 6, 8), Seq: pick(256, 1024, 2048)}
	e, err := plan.NewEstimator(w, c, plan.Calibration{})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Workload: w, Cluster: c, Pricer: e, Workers: 2, Top: 1 + r.IntN(4)}
}

// Search finds what trying everything finds, on 200 small cases; where nothing fits, both say so.
func TestSearchAgainstBruteForce(t *testing.T) {
	misfits, priced, all := 0, 0, 0
	cases := 200
	if testing.Short() {
		cases = 30
	}
	for seed := range uint64(cases) {
		c := randomCase(t, seed)
		want, found, tried := brute(c)
		got, err := Search(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		priced, all = priced+got.Priced, all+tried
		if !found {
			misfits++
		}
		switch {
		case found != (len(got.Plans) > 0):
			t.Errorf("seed %d: found %d plans; by trying all: %v", seed, len(got.Plans), found)
		case found && got.Plans[0].Estimate.Step != want.Estimate.Step:
			t.Errorf("seed %d: got %v %s, want %v %s", seed, got.Plans[0].Estimate.Step, got.Plans[0].Strategy,
				want.Estimate.Step, want.Strategy)
		case found && got.Bound != want.Estimate.Step:
			t.Errorf("seed %d: bound %v, best %v", seed, got.Bound, want.Estimate.Step)
		}
	}
	t.Logf("%d cases fit nowhere; %d of %d strategies were priced", misfits, priced, all)
	if misfits == 0 || misfits > cases/2 {
		t.Errorf("%d of %d cases do not fit: want some, not most", misfits, cases)
	}
}

// The floor of a cell is below every price in it.
func TestFloor(t *testing.T) {
	for seed := range uint64(40) {
		c := randomCase(t, 1000+seed)
		s := newSpace(c.Workload, c.Cluster, c.Pin)
		for _, x := range s.cells() {
			floor, err := c.Pricer.Floor(x)
			if err != nil {
				continue
			}
			for _, o := range s.orders(x) {
				x.VPP, x.Schedule = o.vpp, o.schedule
				x.Layers = nil
				for _, z := range s.shares(x) {
					x.Zero, x.Shard = z.zero, z.shard
					e, err := c.Pricer.Exact(x)
					if err != nil {
						continue
					}
					if e.Step < floor*(1-1e-12) {
						t.Fatalf("seed %d: %s takes %v, its floor is %v", seed, x, e.Step, floor)
					}
					least, err := c.Pricer.Least(x)
					if err != nil || least.Step > e.Step*(1+1e-12) || least.Memory.Total() > e.Memory.Total()*(1+1e-12) ||
						e.Fits && !least.Fits {
						t.Fatalf("seed %d: %s: least %v %v %v, estimate %v %v", seed, x, least.Step, least.Memory, err, e.Step,
							e.Memory)
					}
				}
			}
		}
	}
}
