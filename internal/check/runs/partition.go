package runs

import (
	"strings"

	"github.com/galley-ml/galley/strategy"
)

// partition returns how many layers each pipeline stage has, as the row says, or as its framework divides
// what does not come out even; nil where it does.
func (c *runCase) partition(s *strategy.Strategy) []int {
	layers, n := c.workload.Model.Layers, s.PP*s.VPP
	switch p := c.row.Strategy.Partition; {
	case len(p) == s.PP+1 && p[len(p)-1] >= layers:
		return c.readBorders(s, p)
	case strings.Contains(strings.ToLower(c.row.Framework), "internevo") && s.VPP == 1 && s.PP > 1 &&
		layers > s.PP:
		var list []int
		for i := range s.PP { // its partition_uniform gives what is left over to the last stages
			list = append(list, layers/s.PP+index(i >= s.PP-layers%s.PP))
		}
		return list
	case n > 2 && interleaves(c.row) && s.Schedule == "" && layers%n != 0 && (layers+2)%n == 0:
		// embedding and loss as a layer each
		list := make([]int, n)
		for i := range list {
			list[i] = (layers + 2) / n
		}
		list[0]--
		list[n-1]--
		return list
	}
	return nil
}

// readBorders reads borders of stages among pseudo-layers: some before the transformer's layers, some after.
func (c *runCase) readBorders(s *strategy.Strategy, p []int) (list []int) {
	layers := c.workload.Model.Layers
	before := (p[len(p)-1] - layers) / 3 // of six pseudo-layers, two come before
	if p[len(p)-1] == layers {
		before = 0
	}
	clip := func(x int) int { return max(0, min(layers, x-before)) }
	for i := range s.PP {
		list = append(list, clip(p[i+1])-clip(p[i]))
	}
	// The first pseudo-layer is a cast and the second the embedding: a stage of the first alone has no
	// parameters, for which no optimizer can be made.
	c.broken = before > 1 && p[1] == 1
	return list
}
