package search

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// find searches a known case with the calibration that the command line takes.
func find(t testing.TB, model, on string, batch, seq int, pin string) *Answer {
	t.Helper()
	w, c := workload(t, model, batch, seq), hardware(t, on)
	p, err := ParsePin(pin)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Find(Config{Workload: w, Cluster: c, Pin: p, Workers: 2}, plan.Default(c, w))
	if err != nil {
		t.Fatal(err)
	}
	if a.Misfit != nil {
		t.Fatal(a.Misfit)
	}
	return a
}

const largest = "2048x8 H100-SXM ib=400G"

// The layout that Llama 3 405B was trained with on 16,384 devices is a plan of the space; what it loses to
// the best is said, and what is said adds up.
func TestPublishedLayout(t *testing.T) {
	if testing.Short() {
		t.Skip("two searches over 16,384 devices")
	}
	best := find(t, "llama-3-405b", largest, 2048, 8192, "").Plans[0]
	published := find(t, "llama-3-405b", largest, 2048, 8192, "tp=8 pp=16 cp=1 dp=128").Plans[0]
	t.Logf("best %.2f s: %s", best.Estimate.Step, best.Strategy)
	t.Logf("published %.2f s: %s: %s", published.Estimate.Step, published.Strategy, Why(best, published))
	if published.Estimate.Step < best.Estimate.Step {
		t.Errorf("the search missed %s", published.Strategy)
	}
	a, b := TimeParts(best.Estimate.Parts), TimeParts(published.Estimate.Parts)
	sum := 0.0
	for i := range a {
		sum += b[i].Value - a[i].Value
	}
	if lost := published.Estimate.Step - best.Estimate.Step; math.Abs(sum-lost) > 1e-9*published.Estimate.Step {
		t.Errorf("parts explain %v of %v", sum, lost)
	}
}

// The first plan is proven, plans differ in how they divide the devices, and all fit.
func TestPlans(t *testing.T) {
	a := find(t, "llama-3-8b", "8x8 H100-SXM ib=400G", 512, 8192, "")
	if a.Gap() != 0 || len(a.Plans) != 5 {
		t.Errorf("%d plans, gap %v", len(a.Plans), a.Gap())
	}
	seen := map[family]bool{}
	for i, p := range a.Plans {
		if f := familyOf(p.Strategy); seen[f] || !p.Estimate.Fits || i > 0 &&
			p.Estimate.Step < a.Plans[i-1].Estimate.Step {
			t.Errorf("plan %d: %s", i+1, p.Strategy)
		} else {
			seen[f] = true
		}
	}
	if a.Visited > a.Cells/4 {
		t.Errorf("%d of %d divisions were looked into", a.Visited, a.Cells)
	}
	again := find(t, "llama-3-8b", "8x8 H100-SXM ib=400G", 512, 8192, "")
	for i := range a.Plans {
		if a.Plans[i].Strategy.Line() != again.Plans[i].Strategy.Line() {
			t.Errorf("plan %d is %s, then %s", i+1, a.Plans[i].Strategy, again.Plans[i].Strategy)
		}
	}
}

// What a caller cannot run is not in the space, and the first plan is the best of what is left.
func TestAllow(t *testing.T) {
	w, c := workload(t, "llama-3-8b", 64, 4096), hardware(t, "2x8 H100-SXM ib=400G")
	e, err := plan.NewEstimator(w, c, plan.Default(c, w))
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Workload: w, Cluster: c, Pricer: e,
		Allow: func(s strategy.Strategy) bool { return s.PP > 1 && s.Schedule == "1f1b" && s.Shard == 0 }}
	r, err := Search(config)
	if err != nil || len(r.Plans) == 0 {
		t.Fatal(r, err)
	}
	for _, p := range r.Plans {
		if !config.Allow(p.Strategy) {
			t.Errorf("%s is not allowed", p.Strategy)
		}
	}
	pinned := find(t, "llama-3-8b", "2x8 H100-SXM ib=400G", 64, 4096, "schedule=1f1b shard=0 pp=2")
	if r.Plans[0].Estimate.Step > pinned.Plans[0].Estimate.Step {
		t.Errorf("%s is not as fast as %s", r.Plans[0].Strategy, pinned.Plans[0].Strategy)
	}
}

// With a limit on cells the gap says how much may be left.
func TestLimit(t *testing.T) {
	w, c := workload(t, "llama-3-8b", 512, 8192), hardware(t, "8x8 H100-SXM ib=400G")
	e, err := plan.NewEstimator(w, c, plan.Default(c, w))
	if err != nil {
		t.Fatal(err)
	}
	all, err := Search(Config{Workload: w, Cluster: c, Pricer: e})
	if err != nil {
		t.Fatal(err)
	}
	some, err := Search(Config{Workload: w, Cluster: c, Pricer: e, Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(some.Plans) == 0 || some.Bound > all.Plans[0].Estimate.Step ||
		some.Plans[0].Estimate.Step < all.Plans[0].Estimate.Step {
		t.Errorf("bound %v, found %v, best %v", some.Bound, some.Plans[0].Estimate.Step, all.Plans[0].Estimate.Step)
	}
}

// What does not fit says what is missing and what would fit; and that does.
func TestMisfit(t *testing.T) {
	w, c := workload(t, "llama-3-405b", 64, 8192), hardware(t, "1x8 H100-SXM")
	a, err := Find(Config{Workload: w, Cluster: c}, plan.Default(c, w))
	if err != nil || a.Misfit == nil {
		t.Fatal(a, err)
	}
	m := a.Misfit
	if m.Missing <= 0 || len(m.Changes) == 0 || math.Abs(m.Plan.Estimate.Memory.Total()-m.Limit-m.Missing) > 1 {
		t.Errorf("%v", m)
	}
	if m.Changes[0] != "8 hosts in place of 1" {
		t.Fatalf("changes %q", m.Changes)
	}
	if testing.Short() {
		return
	}
	find(t, "llama-3-405b", "8x8 H100-SXM ib=400G", 64, 8192, "") // fails if it does not fit
}

func benchmarkFind(b *testing.B, model, on string, batch, seq int) {
	for b.Loop() {
		a := find(b, model, on, batch, seq, "")
		b.ReportMetric(float64(a.Priced), "prices")
	}
}

func BenchmarkLlama8B(b *testing.B) {
	benchmarkFind(b, "llama-3-8b", "8x8 H100-SXM ib=400G", 512, 8192)
}

func BenchmarkLlama405B(b *testing.B) { benchmarkFind(b, "llama-3-405b", largest, 2048, 8192) }

func BenchmarkDeepSeekV3(b *testing.B) {
	benchmarkFind(b, "deepseek-v3", "256x8 H800-SXM ib=400G", 15360, 4096)
}
