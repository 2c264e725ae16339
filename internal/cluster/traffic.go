package cluster

import (
	"math"
	"slices"
)

// Traffic is the view of the cluster by collectives of some groups of devices that all run at once. It is
// computed once and then gives the cost of any message size.
type Traffic struct {
	shapes []shape
}

// Cost returns the time of a collective of the groups, with the fastest algorithm for the slowest of them.
func (t *Traffic) Cost(k Kind, bytes float64) Cost {
	worst := Cost{Algorithm: "none"}
	if bytes <= 0 {
		return worst
	}
	for i := range t.shapes {
		if c := t.shapes[i].cost(k, bytes); c.Seconds > worst.Seconds {
			worst = c
		}
	}
	return worst
}

// Traffic describes the groups of an axis among the devices from first to last; last 0 means all.
func (c *Cluster) Traffic(a Axis, first, last int) *Traffic {
	if a.Size <= 1 {
		return &Traffic{}
	}
	if c.Uniform() {
		return &Traffic{shapes: []shape{c.shape(a)}}
	}
	if last == 0 {
		last = c.Size()
	}
	return c.TrafficOn(a.Groups(first, last))
}

// Groups returns the groups of an axis among the devices from first to last. Devices that do not fill a group
// are omitted.
func (a Axis) Groups(first, last int) [][]int {
	var groups [][]int
	block := a.Size * a.Stride
	for base := first; base < last; base += block {
		for o := range a.Stride {
			if base+o+(a.Size-1)*a.Stride >= last {
				break
			}
			g := make([]int, a.Size)
			for i := range g {
				g[i] = base + o + i*a.Stride
			}
			groups = append(groups, g)
		}
	}
	return groups
}

// TrafficOn describes any groups, each in the order of its ring.
func (c *Cluster) TrafficOn(groups [][]int) *Traffic {
	t := &Traffic{}
	leaving := make([]int, c.NumHosts()) // devices of a host that communicate with other hosts
	for _, g := range groups {
		if hosts, _ := c.spread(g); len(hosts) > 1 {
			for _, d := range g {
				leaving[c.At(d).Host]++
			}
		}
	}
	for _, g := range groups {
		if s, ok := c.shapeOn(g, leaving); ok && !slices.Contains(t.shapes, s) {
			t.shapes = append(t.shapes, s)
		}
	}
	return t
}

// spread returns the hosts of a group and the number of its members on each.
func (c *Cluster) spread(g []int) (hosts, counts []int) {
	for _, d := range g {
		h := c.At(d).Host
		i := slices.Index(hosts, h)
		if i < 0 {
			i = len(hosts)
			hosts, counts = append(hosts, h), append(counts, 0)
		}
		counts[i]++
	}
	return hosts, counts
}

// shapeOn describes one group by the slowest link that it uses: its share of each host's cards is that of its
// members among all devices that communicate with other hosts.
func (c *Cluster) shapeOn(g []int, leaving []int) (shape, bool) {
	if len(g) < 2 {
		return shape{}, false
	}
	hosts, counts := c.spread(g)
	s := shape{size: len(g), local: slices.Min(counts), hosts: len(hosts), inner: math.Inf(1),
		outer: math.Inf(1), nvls: true}
	for i, h := range hosts {
		p := c.hostGroup(h)
		f, n := p.Fabric.usual(), p.NIC.usual()
		if counts[i] > 1 {
			s.inner = math.Min(s.inner, f.inside(counts[i], p.Devices))
			s.innerLat, s.innerSetup = math.Max(s.innerLat, f.Latency), math.Max(s.innerSetup, f.Setup)
			s.nvls = s.nvls && f.Kind == "nvlink" && f.Bandwidth >= nvlsBandwidth
		}
		if len(hosts) > 1 {
			share := float64(counts[i]) / float64(max(1, leaving[h]))
			s.outer = math.Min(s.outer, float64(p.NICs)*n.Bandwidth*n.Efficiency*share)
			s.outerLat, s.outerUp = math.Max(s.outerLat, n.Latency), math.Max(s.outerUp, n.Setup)
		}
	}
	s.wire(c, g, hosts)
	s.tiers(c, hosts)
	return s, s.hosts == 1 || s.outer > 0
}

// hostGroup returns the group that host h belongs to.
func (c *Cluster) hostGroup(h int) *Group {
	for i := range c.Groups {
		if h < c.Groups[i].Hosts {
			return &c.Groups[i]
		}
		h -= c.Groups[i].Hosts
	}
	panic("cluster: no such host")
}

// wire lets a ring use wires if they connect all of its neighbours and are faster.
func (s *shape) wire(c *Cluster, g, hosts []int) {
	if len(c.Wires) == 0 {
		return
	}
	slowest := Link{Bandwidth: math.Inf(1)}
	for i, a := range g {
		b := g[(i+1)%len(g)]
		best := Link{}
		for _, w := range c.Wires {
			if l := w.Link.usual(); c.joins(w, a, b, c.At(a), c.At(b)) && l.Bandwidth > best.Bandwidth {
				best = l
			}
		}
		if best.Bandwidth*best.Efficiency < slowest.Bandwidth*orOne(slowest.Efficiency) {
			slowest = best
		}
	}
	rate := slowest.Bandwidth * slowest.Efficiency
	if len(hosts) > 1 && rate > s.outer || len(hosts) > 1 && s.outer == 0 {
		s.outer, s.outerLat, s.outerUp = rate*float64(s.local), slowest.Latency, slowest.Setup
	}
	if len(hosts) == 1 && rate > s.inner {
		s.inner, s.innerLat, s.innerSetup = rate, slowest.Latency, slowest.Setup
	}
}

func orOne(x float64) float64 {
	if x == 0 {
		return 1
	}
	return x
}

// tiers reduces the bandwidth for oversubscribed switches.
func (s *shape) tiers(c *Cluster, hosts []int) {
	if len(hosts) < 2 {
		return
	}
	for _, t := range c.Tiers {
		if t.Hosts > 0 && slices.Min(hosts)/t.Hosts == slices.Max(hosts)/t.Hosts {
			continue
		}
		s.outerLat += t.Latency
		if t.Over > 1 {
			s.outer /= s.crossing(t, max(1, (slices.Max(hosts)-slices.Min(hosts))/(len(hosts)-1)))
		}
	}
}
