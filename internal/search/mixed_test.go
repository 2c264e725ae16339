package search

import (
	"slices"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
)

// mixed is a cluster of two types of devices and links, its hosts scrambled.
const mixed = "1x4 V100-SXM2-32GB ib=100G nics=1 + 1x4 A100-SXM-80GB ib=200G + 1x4 V100-SXM2-32GB ib=100G " +
	"nics=1 + 1x4 A100-SXM-80GB ib=200G"

func workload(t testing.TB, model string, batch, seq int) plan.Workload {
	t.Helper()
	m, err := plan.ModelPreset(model)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Workload{Model: m, Batch: batch, Seq: seq}
}

func hardware(t testing.TB, text string) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// alike prices as an estimator does but knows nothing of what layers take: stages are then cut evenly.
type alike struct{ Pricer }

// On a mixed cluster the plan beats the best one with equal stages, under simulation of the whole schedule,
// and its mapping beats the order in which devices happen to be numbered.
func TestMixed(t *testing.T) {
	if testing.Short() {
		t.Skip("six searches")
	}
	w, c := workload(t, "llama-2-7b", 128, 4096), hardware(t, mixed)
	cal := plan.Default(c, w)
	a, err := Find(Config{Workload: w, Cluster: c, Workers: 2, Top: 1}, cal)
	if err != nil {
		t.Fatal(err)
	}
	best, err := Simulate(a.Estimator, a.Plans[0].Strategy, 0)
	if err != nil {
		t.Fatal(err)
	}
	even := 0.0
	for _, x := range arrangements(c) {
		e, err := plan.NewEstimator(w, x.cluster, cal)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Search(Config{Workload: w, Cluster: x.cluster, Pricer: alike{e}, Workers: 2, Top: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Plans) == 0 {
			continue
		}
		s, err := Simulate(e, r.Plans[0].Strategy, 0)
		if err != nil {
			t.Fatal(err)
		}
		if even == 0 || s.Step() < even {
			even = s.Step()
		}
	}
	t.Logf("%s: %.2f s simulated, gap %.1f%%; equal stages %.2f s; links and slowest device %.2f s, in order "+
		"%.2f s",
		a.Plans[0].Strategy, best.Step(), 100*a.Gap(), even, a.Mapping.Seconds, a.Mapping.Identity)
	if best.Step() >= even {
		t.Errorf("simulated step %v: stages cut evenly take %v", best.Step(), even)
	}
	if a.Mapping.Seconds >= a.Mapping.Identity {
		t.Errorf("mapped %v: in the order of devices %v", a.Mapping.Seconds, a.Mapping.Identity)
	}
	seen := make([]bool, c.Size())
	for _, d := range a.Mapping.Devices {
		seen[d] = true
	}
	for d, ok := range seen {
		if !ok {
			t.Errorf("no rank runs on device %d", d)
		}
	}
}

// Greedy grouping finds hosts that were scrambled, and swaps mend what it gets wrong.
func TestMap(t *testing.T) {
	c := hardware(t, mixed)
	// Two stages of eight, of which the first computes three times as much: it should run on the faster hosts.
	traffic := &Traffic{Ranks: 16, Nest: []int{8, 2}, Work: make([]float64, 16), Phases: []Phase{
		{Name: "data", Rings: rings(16, 8, 1), Bytes: 1e9},
		{Name: "pipeline", Rings: rings(16, 2, 8), Bytes: 1e6, Open: true},
	}}
	for r := range traffic.Work {
		traffic.Work[r] = []float64{0.3, 0.1}[r/8]
	}
	m := Map(c, traffic)
	if m.Seconds >= m.Identity {
		t.Fatalf("mapped %v, in order %v", m.Seconds, m.Identity)
	}
	for i := range m.Devices {
		if a, b := c.DeviceAt(m.Devices[i]).Name, c.DeviceAt(m.Devices[i/8*8]).Name; a != b {
			t.Errorf("rank %d runs on %s, its group on %s: %v", i, a, b, m.Devices)
		}
	}
	// Where three pairs have changed places, swaps mend at least a part.
	r := newTopology(c)
	bad := Mapping{Devices: slices.Clone(m.Devices)}
	for i := range 3 {
		bad.Devices[i], bad.Devices[8+i] = bad.Devices[8+i], bad.Devices[i]
	}
	load := make([]float64, c.NumHosts())
	before := r.price(traffic, bad.Devices, load)
	r.swap(traffic, &bad, load)
	if bad.Swaps == 0 || bad.Seconds >= before {
		t.Errorf("%d swaps: %v from %v", bad.Swaps, bad.Seconds, before)
	}
	if u := hardware(t, "2x8 H100-SXM ib=400G"); Map(u, &Traffic{Ranks: 16, Nest: []int{16}}).Devices[5] != 5 {
		t.Error("a cluster of equal hosts is mapped otherwise than in order")
	}
}

// Hosts that would hold up the others stay idle, and the bound still counts them.
func TestIdle(t *testing.T) {
	w, c := workload(t, "llama-2-7b", 48, 4096), hardware(t, "1x4 T4-16GB eth=10G nics=1 + 1x8 A100 ib=200G")
	a, err := Find(Config{Workload: w, Cluster: c, Workers: 2, Top: 1}, plan.Published())
	if err != nil {
		t.Fatal(err)
	}
	if a.Idle != 4 || len(a.Mapping.Devices) != 8 || a.Gap() <= 0 {
		t.Fatalf("%d idle, %d mapped, gap %v: %s", a.Idle, len(a.Mapping.Devices), a.Gap(), a.Plans[0].Strategy)
	}
	for r, d := range a.Mapping.Devices {
		if name := c.DeviceAt(d).Name; name != "A100-SXM-80GB" {
			t.Errorf("rank %d runs on %s", r, name)
		}
	}
}
