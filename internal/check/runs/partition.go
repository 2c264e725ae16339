package runs

import "strings"

// readPartition is how many layers each pipeline stage has: as the row says, or as its framework divides what
// does not come out even.
func (c *runCase) readPartition() {
	s, layers := &c.strategy, c.workload.Model.Layers
	s.Layers = nil
	switch p := c.row.Strategy.Partition; {
	case len(p) == s.PP+1 && p[len(p)-1] >= layers:
		c.readBorders(p)
	case strings.Contains(strings.ToLower(c.row.Framework), "internevo") && s.VPP == 1 && s.PP > 1 &&
		layers > s.PP:
		for i := range s.PP { // its partition_uniform gives what is left over to the last stages
			s.Layers = append(s.Layers, layers/s.PP+index(i >= s.PP-layers%s.PP))
		}
	}
}

// readBorders reads borders of stages among pseudo-layers: some before the transformer's layers, some after.
func (c *runCase) readBorders(p []int) {
	s, layers := &c.strategy, c.workload.Model.Layers
	before := (p[len(p)-1] - layers) / 3 // of six pseudo-layers, two come before
	if p[len(p)-1] == layers {
		before = 0
	}
	clip := func(x int) int { return max(0, min(layers, x-before)) }
	for i := range s.PP {
		s.Layers = append(s.Layers, clip(p[i+1])-clip(p[i]))
	}
	// The first pseudo-layer is a cast and the second the embedding: a stage of the first alone has no
	// parameters, for which no optimizer can be made.
	c.broken = before > 1 && p[1] == 1
}
