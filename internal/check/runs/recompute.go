package runs

import (
	"regexp"
	"strings"

	"github.com/galley-ml/galley/strategy"
)

// recomputeCount is a number of layers: block:4, full:4, or 4 alone.
var recomputeCount = regexp.MustCompile(`^(?:full|block|layers)?[ :=-]*(\d+)(?: layers?)?$`)

// recomputeEvery matches one layer of every n.
var recomputeEvery = regexp.MustCompile(`every (\d+)`)

// readRecompute parses the names that frameworks use.
func (c *runCase) readRecompute(name string) {
	s, n := &c.strategy, strings.TrimSpace(strings.ToLower(name))
	layers := max(1, c.workload.Model.Layers/s.PP/s.VPP)
	first, _, _ := strings.Cut(strings.NewReplacer("(", " ", ",", " ").Replace(n), " ")
	yes, isTruth := truth(n)
	switch count, every := recomputeCount.FindStringSubmatch(n), recomputeEvery.FindStringSubmatch(n); {
	case isTruth && !yes, first == "none", n == "":
	case every != nil && *number(every[1]) > 0:
		s.Recompute = strategy.FullLayers(max(1, layers / *number(every[1])))
	case isTruth:
		s.Recompute = strategy.Full
	case count != nil && *number(count[1]) > 0:
		s.Recompute = strategy.FullLayers(min(layers, *number(count[1])))
	// Keeping one product of many, on the host or not, saves little of the rest.
	case first == "full", first == "uniform", first == "block", strings.HasSuffix(n, "_proj_offloaded"),
		n == "save_nothing", n == "nothing_saveable":
		s.Recompute = strategy.Full
	case n == "selective-op", n == "sac", n == "op": // torchtitan's names
		s.Recompute = strategy.Products
	// Of whole layers, every other one.
	case strings.HasPrefix(n, "selective-"), strings.HasPrefix(n, "partial"):
		s.Recompute = strategy.FullLayers(max(1, layers/2))
	// Products are kept: JAX's policies and Megatron's selective mode.
	case first == "selective", strings.HasPrefix(n, "minimal"), strings.HasPrefix(n, "dots"), n == "core_attn":
		s.Recompute = strategy.Selective
	default: // an unknown name means that something is recomputed
		c.open.recompute = true
		c.assume("recomputation %q is what fits", name)
	}
}
