package executor

import (
	"fmt"

	"github.com/galley-ml/galley/backend"
)

// Share assigns a backend a part of each batch, proportional to its Weight.
type Share struct {
	// Backend computes the share; nil means the host.
	Backend backend.Backend
	Weight  float64
}

// ShareRows returns the number of rows of each share: roughly proportional, and at least one.
func ShareRows(rows int, shares []Share) ([]int, error) {
	total := 0.0
	for i, s := range shares {
		if !(s.Weight > 0) {
			return nil, fmt.Errorf("share %d has the weight %v: want one above 0", i, s.Weight)
		}
		total += s.Weight
	}
	if rows < len(shares) {
		return nil, fmt.Errorf("a batch of %d rows for %d shares: want a row for each", rows, len(shares))
	}
	list, sum, done := make([]int, len(shares)), 0.0, 0
	for i, s := range shares {
		sum += s.Weight
		end := int(sum/total*float64(rows) + 0.5)
		end = min(max(end, done+1), rows-(len(shares)-1-i))
		list[i], done = end-done, end
	}
	return list, nil
}

// CheckMixed returns an error for shares or rank backends that this config does not support.
func (c Config) CheckMixed() error {
	switch {
	case len(c.RankBackends) > 0 && c.Strategy == nil && !c.Annotated():
		return fmt.Errorf(
			"trainer: RankBackends are of a pipeline's ranks: want a Strategy with PP, or Backend alone",
		)
	case c.Strategy != nil && c.Strategy.Devices() > 1 && len(c.RankBackends) > max(c.Strategy.PP, 1):
		return c.CheckRanks(max(c.Strategy.PP, 1)) // without degrees, meshes may determine the ranks
	case len(c.RankBackends) > 0 && c.Backend != nil, len(c.Shares) > 0 && c.Backend != nil:
		return fmt.Errorf("trainer: Backend runs all of a step: want it, or RankBackends, or Shares")
	case len(c.Shares) > 0 && (c.Strategy != nil || c.Mode == Eager):
		return fmt.Errorf("trainer: Shares split a batch of a compiled step: want no Strategy, and Static")
	case len(c.Shares) > 0 && c.Annotated():
		return fmt.Errorf("trainer: Shares split a batch, each with all parameters: " +
			"want no parameters or batches on meshes")
	}
	return nil
}

// CheckRanks returns an error if there are backends for more ranks than the pipeline has.
func (c Config) CheckRanks(ranks int) error {
	if n := len(c.RankBackends); n > ranks {
		return fmt.Errorf("trainer: RankBackends of %d ranks: the pipeline has pp=%d", n, ranks)
	}
	return nil
}
