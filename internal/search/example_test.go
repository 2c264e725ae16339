package search_test

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/search"
)

// Ten equal layers on two stages, of which the second is twice as fast and also has a head that takes as long
// as two layers.
func ExamplePartition() {
	sizes, slowest := search.Partition(2, 10, func(stage, from, to int) float64 {
		if stage == 0 {
			return float64(to - from)
		}
		return (float64(to-from) + 2) / 2
	})
	fmt.Println(sizes, slowest)
	// Output: [4 6] 4
}

func ExampleFind() {
	m, _ := plan.ModelPreset("llama-3-8b")
	c, _ := cluster.Parse("2x8 H100-SXM ib=400G")
	w := plan.Workload{Model: m, Batch: 64, Seq: 4096}
	a, err := search.Find(search.Config{Workload: w, Cluster: c}, plan.Default(c, w))
	if err != nil {
		fmt.Println(err)
		return
	}
	best := a.Plans[0]
	fmt.Println(len(a.Plans), best.Strategy.Devices(), best.Estimate.Fits, a.Gap())
	// Output: 5 16 true 0
}
