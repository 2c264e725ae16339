package search

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
)

// Answer holds the plans for a workload on a cluster, and where they run.
type Answer struct {
	Result
	// Cluster is the hardware in the order in which ranks are placed on it: the given order, unless types of
	// hosts are mixed. Then some hosts may be omitted, because they would slow down the others: Idle is the
	// number of their devices.
	Cluster *cluster.Cluster
	Idle    int
	// Mapping holds the device, in the given cluster, of each rank of the first plan; nil if rank i runs on
	// device i.
	Mapping *Mapping
	// Misfit describes what is missing if no plan fits.
	Misfit *Misfit
	// Estimator prices further strategies on Cluster.
	Estimator *plan.Estimator
}

// Find searches every order of the cluster's hosts, takes the best, and maps its ranks to devices.
func Find(c Config, cal plan.Calibration) (*Answer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	var best *Answer
	var taken arrangement
	for _, a := range arrangements(c.Cluster) {
		e, err := plan.NewEstimator(c.Workload, a.cluster, cal)
		if err != nil {
			return nil, err
		}
		x := c
		x.Cluster, x.Pricer = a.cluster, e
		r, err := Search(x)
		if err != nil {
			return nil, err
		}
		if best == nil || r.better(&best.Result) {
			priced, cells, visited := 0, 0, 0
			if best != nil {
				priced, cells, visited = best.Priced, best.Cells, best.Visited
			}
			best = &Answer{Result: *r, Cluster: a.cluster, Estimator: e}
			best.Priced, best.Cells, best.Visited = r.Priced+priced, r.Cells+cells, r.Visited+visited
			taken = a
		} else {
			best.Priced, best.Cells, best.Visited = best.Priced+r.Priced, best.Cells+r.Cells, best.Visited+r.Visited
		}
	}
	return best, best.finish(c, cal, taken)
}

func (r *Result) better(old *Result) bool {
	if len(r.Plans) == 0 || len(old.Plans) == 0 {
		return len(r.Plans) > 0
	}
	return r.Plans[0].Estimate.Step < old.Plans[0].Estimate.Step
}

// finish maps the best plan, or explains why there is none. On mixed clusters the bound is what all devices
// together could do, in proportion to their speed: the space has only pipelines of one division, so that more
// might be possible.
func (a *Answer) finish(c Config, cal plan.Calibration, taken arrangement) error {
	if len(a.Plans) == 0 {
		var err error
		if a.Cells == 0 {
			return c.undivided()
		}
		a.Misfit, err = misfit(c, cal)
		return err
	}
	if c.Cluster.Uniform() {
		return nil
	}
	a.Idle = c.Cluster.Size() - a.Cluster.Size()
	all, err := plan.NewEstimator(c.Workload, c.Cluster, cal)
	if err != nil {
		return err
	}
	floor, err := all.Floor(a.Plans[0].Strategy)
	if err != nil {
		return err
	}
	a.Bound = min(a.Bound, floor)
	m := Map(c.Cluster, TrafficOf(c.Workload, a.Plans[0], a.Cluster), taken.devices)
	a.Mapping = &m
	return nil
}

// undivided explains why there is no division at all.
func (c Config) undivided() error {
	if c.Pin.String() != "" {
		return fmt.Errorf("plan: no strategy for %d devices and a batch of %d has %s", c.Cluster.Size(),
			c.Workload.Batch, c.Pin)
	}
	x := c
	for x.Workload.Batch = c.Workload.Batch +
		1; x.Workload.Batch <= c.Workload.Batch+c.Cluster.Size(); x.Workload.Batch++ {
		if len(newSpace(x.Workload, x.Cluster, x.Pin).cells()) > 0 {
			return fmt.Errorf("plan: a batch of %d does not divide over %d devices in any way: the next that does "+
				"is %d",
				c.Workload.Batch, c.Cluster.Size(), x.Workload.Batch)
		}
	}
	return fmt.Errorf("plan: %s does not divide over %d devices in any way: try another number of hosts",
		c.Workload.Model.Name, c.Cluster.Size())
}
