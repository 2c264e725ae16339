package search

import (
	"fmt"
	"math"
	"strings"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
)

// Misfit describes how far a workload is from fitting, and what would make it fit.
type Misfit struct {
	// Plan is the strategy that comes closest; it needs Missing bytes more than a device has.
	Plan    Plan
	Missing float64
	// Limit is the memory of that device.
	Limit float64
	// Changes lists what would fit, each by itself, the smallest of its kind.
	Changes []string
}

// Error returns the misfit in one line.
func (m *Misfit) Error() string {
	parts := m.Plan.Estimate.Memory
	text := fmt.Sprintf("plan: nothing fits: the least that a device needs is %s (%s), it has %s: %s are "+
		"missing",
		gigabytes(parts.Total()), memoryText(parts), gigabytes(m.Limit), gigabytes(m.Missing))
	if len(m.Changes) > 0 {
		text += "; it fits with " + strings.Join(m.Changes, ", or with ")
	}
	return text
}

// memoryText returns the largest parts of memory.
func memoryText(m plan.Memory) string {
	var words []string
	for _, p := range []struct {
		name  string
		bytes float64
	}{
		{"weights", m.Weights}, {"gradients", m.Gradients}, {"optimizer", m.Optimizer}, {"activations",
			m.Activations}, {"logits", m.Logits},
		{"buffers", m.Buffers}, {"context", m.Context}, {"slack", m.Slack},
	} {
		if p.bytes > 0.03*m.Total() {
			words = append(words, p.name+" "+gigabytes(p.bytes))
		}
	}
	return strings.Join(words, ", ")
}

func gigabytes(x float64) string { return fmt.Sprintf("%.1f GB", x/1e9) }

// misfit finds the strategy that comes closest to fitting, and the smallest changes that fit.
func misfit(c Config, cal plan.Calibration) (*Misfit, error) {
	m := &Misfit{Missing: math.Inf(1)}
	e, err := plan.NewEstimator(c.Workload, c.Cluster, cal)
	if err != nil {
		return nil, err
	}
	c.Pricer = e
	c.eachLeastMemory(func(p Plan) bool {
		for _, st := range p.Estimate.Stages {
			if lack := st.Memory.Total() - st.Limit; st.Memory == p.Estimate.Memory && lack < m.Missing {
				m.Plan, m.Missing, m.Limit = p, lack, st.Limit
			}
		}
		return false
	})
	if math.IsInf(m.Missing, 1) {
		return nil, fmt.Errorf("plan: no strategy can be priced for %s on %s", c.Workload.Model.Name, c.Cluster)
	}
	m.Changes = changes(c, cal)
	m.Changes = append(m.Changes, "devices of "+gigabytes(math.Ceil((m.Limit+m.Missing)/1e9)*1e9))
	return m, nil
}

// changes tries more hosts, then shorter sequences.
func changes(c Config, cal plan.Calibration) []string {
	var list []string
	for n := 2; n <= 4096; n *= 2 {
		x := c
		more := *c.Cluster
		more.Groups = append([]cluster.Group(nil), c.Cluster.Groups...)
		for i := range more.Groups {
			more.Groups[i].Hosts *= n
			if more.Groups[i].NICs == 0 { // one host alone needs no network; several do
				more.Groups[i].NICs, more.Groups[i].NIC = more.Groups[i].Devices, cluster.Link{Kind: "ib",
					Bandwidth: 50e9}
			}
		}
		x.Cluster = &more
		x.Workload.Batch *= max(1, n/max(1, c.Workload.Batch))
		if x.fits(cal) {
			list = append(list, fmt.Sprintf("%d hosts in place of %d", more.NumHosts(), c.Cluster.NumHosts()))
			break
		}
	}
	for seq := c.Workload.Seq / 2; seq >= 128; seq /= 2 {
		x := c
		x.Workload.Seq = seq
		if x.fits(cal) {
			list = append(list, fmt.Sprintf("sequences of %d tokens", seq))
			break
		}
	}
	return list
}

// fits reports whether any strategy fits.
func (c Config) fits(cal plan.Calibration) bool {
	e, err := plan.NewEstimator(c.Workload, c.Cluster, cal)
	if err != nil {
		return false
	}
	c.Pricer = e
	found := false
	c.eachLeastMemory(func(p Plan) bool { found = found || p.Estimate.Fits; return found })
	return found
}

// eachLeastMemory prices each division with the smallest micro-batch, full sharding, recomputation and
// offloading, until stop returns true.
func (c Config) eachLeastMemory(stop func(p Plan) bool) {
	s := newSpace(c.Workload, c.Cluster, c.Pin)
	for _, x := range s.cells() {
		if x.MicroBatch > 1 && !c.Pin.has("micro_batch") {
			continue
		}
		for _, o := range s.orders(x) {
			if o.vpp > 1 && !c.Pin.has("vpp") && !c.Pin.has("schedule") {
				continue
			}
			x.VPP, x.Schedule = o.vpp, o.schedule
			for _, z := range s.shares(x) {
				x.Zero, x.Shard = z.zero, z.shard
				lines := s.reliefs(x)
				if len(lines) == 0 {
					continue
				}
				line := lines[len(lines)-1]
				x.Recompute, x.Offload = line[len(line)-1].recompute, line[len(line)-1].offload
				if c.Allow != nil && !c.Allow(x) {
					continue
				}
				if e, err := c.Pricer.Least(x); err == nil && stop(Plan{x, e}) {
					return
				}
			}
		}
	}
}
