package search

import (
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
)

// mixed is a cluster of two types of devices whose hosts are scrambled.
const mixed = "1x8 V100-SXM2-32GB ib=100G nics=4 + 1x8 A100-SXM-80GB ib=200G + 1x8 V100-SXM2-32GB ib=100G nics=4 + 1x8 A100-SXM-80GB ib=200G"

func TestMixed(t *testing.T) {
	m, err := plan.ModelPreset("llama-2-13b")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Parse(mixed)
	if err != nil {
		t.Fatal(err)
	}
	w := plan.Workload{Model: m, Batch: 256, Seq: 4096, Precision: "fp16"}
	a, err := Find(Config{Workload: w, Cluster: c, Workers: 2}, plan.Calibration{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range a.Plans {
		t.Logf("%.3f s MFU %.3f %.1f GB %s %s", p.Estimate.Step, p.Estimate.MFU, p.Estimate.Memory.Total()/1e9, p.Strategy, Why(a.Plans[0], p))
	}
	t.Logf("gap %.3f, mapping %.4f greedy %.4f identity %.4f swaps %d %v", a.Gap(), a.Mapping.Seconds, a.Mapping.Greedy, a.Mapping.Identity, a.Mapping.Swaps, a.Mapping.Devices)
}
