package planfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/strategy"
)

// TestKinds: ranks are of the devices that the layout has in their order, or that they are mapped to.
func TestKinds(t *testing.T) {
	text := `hosts:
- {count: 1, devices: 2, device: V100-SXM2-32GB, nics: 1, nic: {kind: ib, bandwidth: 100G}}
- {count: 1, devices: 2, device: A100-SXM-80GB, nics: 1, nic: {kind: ib, bandwidth: 100G}}
`
	c, err := cluster.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	m, err := plan.ModelPreset("gpt3-125m")
	if err != nil {
		t.Fatal(err)
	}
	f := planfile.New(plan.Workload{Model: m, Batch: 8, Seq: 128, Precision: "fp16"}, c,
		strategy.Strategy{DP: 2, PP: 2, MicroBatch: 1}, plan.Estimate{Step: 1})
	for _, x := range []struct {
		mapping []int
		want    [][]string
	}{
		{nil, [][]string{{"V100-SXM2-32GB"}, {"A100-SXM-80GB"}}},
		{[]int{2, 3, 0, 1}, [][]string{{"A100-SXM-80GB"}, {"V100-SXM2-32GB"}}},
		{[]int{0, 2, 1, 3}, [][]string{{"V100-SXM2-32GB", "A100-SXM-80GB"}, {"V100-SXM2-32GB", "A100-SXM-80GB"}}},
	} {
		f.Mapping = x.mapping
		got, err := f.Kinds()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(x.want, got); d != "" {
			t.Error(d)
		}
	}
	f.Mapping = nil
	speeds, err := f.Speeds()
	if err != nil || len(speeds) != 4 || speeds[0] != speeds[1] || speeds[2] <= speeds[1] {
		t.Errorf("speeds %v: %v", speeds, err)
	}
}
