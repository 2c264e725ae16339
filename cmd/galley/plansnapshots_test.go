package main

import (
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/strategy"
)

// TestSnapshotBytes: three times a host's share of 12 bytes a parameter, and a neighbour's where it has no
// copy.
func TestSnapshotBytes(t *testing.T) {
	for _, test := range []struct {
		cluster string
		s       strategy.Strategy
		want    float64 // bytes a parameter
	}{
		{"1x8 H100-SXM", strategy.Strategy{DP: 8}, 36},
		{"2x8 H100-SXM ib=400G", strategy.Strategy{DP: 16}, 36},
		{"2x8 H100-SXM ib=400G", strategy.Strategy{DP: 16, Zero: 1}, 3 * (4 + 8./2*2)},
		{"2x8 H100-SXM ib=400G", strategy.Strategy{DP: 16, Zero: 3}, 3 * 12. / 2 * 2},
		{"2x8 H100-SXM ib=400G", strategy.Strategy{DP: 16, Zero: 3, Shard: 8}, 36},
		{"4x8 H100-SXM ib=400G", strategy.Strategy{DP: 2, TP: 8, PP: 2}, 3 * 12. / 2},
	} {
		c, err := cluster.Parse(test.cluster)
		if err != nil {
			t.Fatal(err)
		}
		if got := snapshotBytes(1, clusterHosts(c), test.s); got != test.want {
			t.Errorf("%s, %v: got %g bytes a parameter, want %g", test.cluster, test.s, got, test.want)
		}
	}
}
