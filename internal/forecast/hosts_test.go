package forecast

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/strategy"
)

// TestOnHosts: another host is worth it where there is enough to compute, and not where the link takes longer
// than it saves, as a run has learned; one with more cores is worth more.
func TestOnHosts(t *testing.T) {
	const own = 2
	price := func(hidden, batch, seq int, given *strategy.Strategy, hosts ...Host) float64 {
		t.Helper()
		r := Run{
			Model: models.Config{Family: "llama", Vocab: 256, Hidden: hidden, Intermediate: 4 * hidden, Layers: 4,
				Heads: 4, Positions: 512, Tied: true},
			Batch: batch,
			Seq:   seq,
		}
		seconds, err := OnHosts(r, hosts, given)
		if err != nil || seconds <= 0 {
			t.Fatalf("%v: got %v s and %v", hosts, seconds, err)
		}
		return seconds
	}
	a, b := Host{"a", 1, own}, Host{"b", 1, own}
	dp2 := &strategy.Strategy{DP: 2}
	for _, given := range []*strategy.Strategy{nil, dp2} {
		one, two := price(512, 64, 256, given, a), price(512, 64, 256, given, a, b)
		if two > 0.7*one {
			t.Errorf("%v: %v s on one host and %v s on two: want about half", given, one, two)
		}
		if four := price(512, 64, 256, given, a, Host{"b", 1, 2 * own}); four > two {
			t.Errorf("%v: %v s with a host of %d cores, %v s of %d", given, four, 2*own, two, own)
		}
	}
	if near, far := price(512, 64, 256, dp2, a, Host{"a", 1, own}), price(512, 64, 256, dp2, a, b); near > far {
		t.Errorf("%v s through memory, %v s over a wire", near, far)
	}
	run := Run{
		Model: models.Config{Family: "llama", Vocab: 256, Hidden: 512, Intermediate: 2048, Layers: 4, Heads: 4,
			Positions: 512, Tied: true},
		Batch: 8,
		Seq:   32,
	}
	cal, err := Scaled(run, plan.Constants{Compute: 0.01, Communication: 20}) // a fast machine on a slow link
	if err != nil {
		t.Fatal(err)
	}
	run.Calibration = cal.YAML()
	one, err := OnHosts(run, []Host{a}, dp2)
	two, err2 := OnHosts(run, []Host{a, b}, dp2)
	if err != nil || err2 != nil || two < one {
		t.Errorf("on a slow link: %v s on one host and %v s on two (%v, %v): want more", one, two, err, err2)
	}
	if _, err := OnHosts(Run{Model: models.Config{Family: "llama", Vocab: 256, Hidden: 64, Intermediate: 64,
		Layers: 2,
		Heads:  4, Positions: 512}, Batch: 8, Seq: 32}, []Host{a, b, {"c", 1, own}}, dp2); err == nil {
		t.Error("2 devices on 3 processes: no error")
	}
}

// TestJobPrices: what passes between processes takes longer than within one, and between hosts longer still;
// a cluster that was measured says how long, and has to be of the job's processes.
func TestJobPrices(t *testing.T) {
	r := Run{
		Model: models.Config{Family: "llama", Vocab: 256, Hidden: 64, Intermediate: 256, Layers: 2, Heads: 4,
			Positions: 512, Tied: true},
		Batch:   4,
		Seq:     16,
		Devices: 4,
	}
	price := func(hosts ...Host) float64 {
		t.Helper()
		run := r
		run.Hosts = hosts
		e, err := Estimate(run, strategy.Strategy{DP: 4})
		if err != nil {
			t.Fatal(err)
		}
		return e.Step
	}
	cores := cluster.Cores()
	alone, four := price(), price(Host{"a", 4, cores})
	if alone >= four {
		t.Errorf("got %v s in one process, %v in four: want more", alone, four)
	}
	one, two := price(Host{"a", 4, 2 * cores}), price(Host{"a", 2, cores}, Host{"b", 2, cores})
	if one >= two {
		t.Errorf("got %v s on one host, %v on two of half the cores: want more", one, two)
	}
	if got := price(Host{"a", 1, cores}); got != alone {
		t.Errorf("got %v s for a job of one process, %v without a job", got, alone)
	}
	hw := cluster.Local(cluster.LocalConfig{Devices: 4})
	r.Hosts = []Host{{"a", 4, cores}}
	var last float64
	for i, rate := range []float64{10e9, 10e6} {
		hw.Groups[0].Fabric.Bandwidth = rate
		r.Cluster = hw.YAML()
		e, err := Estimate(r, strategy.Strategy{DP: 4})
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && e.Step < 1.05*last {
			t.Errorf("got %v s at %v bytes a second, %v at a thousand times more", e.Step, rate, last)
		}
		last = e.Step
	}
	r.Hosts = []Host{{"a", 2, cores}, {"b", 2, cores}}
	if _, err := Estimate(r, strategy.Strategy{DP: 4}); err == nil || !strings.Contains(err.Error(), "[4]") {
		t.Errorf("a cluster of one host for a job of two: got %v", err)
	}
}
