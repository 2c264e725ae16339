package cluster

import (
	"fmt"
	"math"
	"slices"
)

// Kind is a collective.
type Kind int

// The collectives. Bytes mean the whole tensor for the first four, what each device holds for AllToAll, and
// the message for SendRecv, which goes from every device of a group to the next.
const (
	AllReduce Kind = iota
	AllGather
	ReduceScatter
	Broadcast
	AllToAll
	SendRecv
)

var kindNames = [...]string{"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all",
	"send_recv"}

// String returns the collective's name.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind %d", int(k))
	}
	return kindNames[k]
}

// KindOf returns the collective with a name.
func KindOf(name string) (Kind, bool) {
	i := slices.Index(kindNames[:], name)
	return Kind(i), i >= 0
}

// Axis is one parallel dimension over the devices: groups of Size devices, Stride apart. All groups
// communicate at once.
type Axis struct {
	Size, Stride int
}

// Cost is how long a collective takes and by which algorithm.
type Cost struct {
	Seconds   float64
	Algorithm string
}

// Collective returns the time of a collective of all groups of an axis at once, with the fastest
// algorithm.
func (c *Cluster) Collective(k Kind, bytes float64, a Axis) Cost {
	if a.Size <= 1 || bytes <= 0 {
		return Cost{Algorithm: "none"}
	}
	s := c.shape(a)
	return s.cost(k, bytes)
}

// shape is a collective's view of the cluster: how many members of a group are in a host, how many hosts it
// spans, and the bandwidth of each member within its host and beyond while the other groups do the same.
type shape struct {
	size, local, hosts int
	// bytes a second of one member, and of all members of a group in one host to other hosts
	inner, outer        float64
	innerLat, outerLat  float64
	innerSetup, outerUp float64
	nvls                bool
}

// shape describes an axis by the slowest part of the cluster that it is on.
func (c *Cluster) shape(a Axis) shape {
	s := shape{size: a.Size, inner: math.Inf(1), outer: math.Inf(1), nvls: true}
	for i := range c.Groups {
		g := &c.Groups[i]
		local := min(a.Size, (g.Devices-1)/max(1, a.Stride)+1)
		if i == 0 || local < s.local {
			s.local = local
		}
		f := g.Fabric.usual()
		s.inner = math.Min(s.inner, f.inside(local, g.Devices))
		s.innerLat, s.innerSetup = math.Max(s.innerLat, f.Latency), math.Max(s.innerSetup, f.Setup)
		s.nvls = s.nvls && f.Kind == "nvlink" && f.Bandwidth >= nvlsBandwidth
		n := g.NIC.usual()
		s.outer = math.Min(s.outer, float64(g.NICs)*n.Bandwidth*n.Efficiency*float64(local)/float64(g.Devices))
		s.outerLat, s.outerUp = math.Max(s.outerLat, n.Latency), math.Max(s.outerUp, n.Setup)
	}
	s.hosts = (a.Size + s.local - 1) / s.local
	s.climb(c, a)
	return s
}

// climb reduces the bandwidth between hosts by the switches on the way.
func (s *shape) climb(c *Cluster, a Axis) {
	if s.hosts < 2 {
		return
	}
	perHost := 1
	for _, g := range c.Groups {
		perHost = max(perHost, g.Devices)
	}
	apart := max(1, a.Stride*s.local/perHost) // hosts between neighbours
	reach := apart * s.hosts
	for _, t := range c.Tiers {
		if t.Hosts > 0 && reach > t.Hosts || t.Hosts == 0 {
			s.outerLat += t.Latency
			if t.Over > 1 {
				s.outer /= s.crossing(t, apart)
			}
		}
	}
}

// crossing returns the slowdown of a ring that passes an oversubscribed tier: of the members below one switch
// only the last one sends out of it, so a ring seldom sees the whole factor.
func (s *shape) crossing(t Tier, apart int) float64 {
	if t.Hosts == 0 {
		return t.Over
	}
	below := max(1, t.Hosts/apart)
	return math.Max(1, t.Over/float64(below))
}

// nvlsBandwidth is the least fabric bandwidth with which switches reduce data themselves (NVLink SHARP, since
// the fourth generation).
const nvlsBandwidth = 400e9

// cost returns the time by the fastest algorithm.
func (s *shape) cost(k Kind, bytes float64) Cost {
	switch k {
	case AllToAll:
		return Cost{s.allToAll(bytes), "direct"}
	case SendRecv:
		return Cost{s.sendRecv(bytes), "direct"}
	}
	passes := 1.0
	if k == AllReduce {
		passes = 2
	}
	best := Cost{s.ring(bytes, passes), "ring"}
	try := func(t float64, name string) {
		if t < best.Seconds {
			best = Cost{t, name}
		}
	}
	if k == AllReduce || k == Broadcast {
		try(s.tree(bytes, passes), "tree")
	}
	if k == AllReduce && s.hosts > 1 && s.local > 1 { // libraries gather and scatter with rings only
		try(s.hierarchical(bytes, passes), "hierarchical")
	}
	if k == AllReduce && s.hosts == 1 && s.nvls && s.size > 2 {
		try(s.switched(bytes, passes), "nvls")
	}
	return best
}

func (s *shape) step() (lat, bw, setup float64) {
	if s.hosts == 1 {
		return s.innerLat, s.inner, s.innerSetup
	}
	return math.Max(s.innerLat, s.outerLat), math.Min(s.inner, s.outer), math.Max(s.innerSetup, s.outerUp)
}

// ring sends every byte past every member: the fewest bytes, but as many steps as there are members.
func (s *shape) ring(bytes, passes float64) float64 {
	lat, bw, setup := s.step()
	n := float64(s.size)
	return setup + passes*(n-1)*lat + passes*(n-1)/n*bytes/bw
}

// tree takes a number of steps logarithmic in the hosts, but moves somewhat more bytes.
func (s *shape) tree(bytes, passes float64) float64 {
	lat, bw, setup := s.step()
	steps := math.Ceil(math.Log2(float64(s.hosts)))*lat + float64(s.local-1)*s.innerLat
	return setup + passes*steps + passes*bytes/(bw*treeBandwidth)
}

// treeBandwidth is the bandwidth of a double binary tree relative to a ring's.
const treeBandwidth = 0.9

// hierarchical reduce-scatters inside hosts, all-reduces between equal ranks of hosts, and gathers inside
// hosts.
func (s *shape) hierarchical(bytes, passes float64) float64 {
	l, h := float64(s.local), float64(s.hosts)
	inside := (l-1)*s.innerLat + (l-1)/l*bytes/s.inner
	across := (h-1)*s.outerLat + (h-1)/h*bytes/s.outer
	return s.innerSetup + s.outerUp + passes*(inside+across)
}

// switched returns the time of a reduction in the switches: each byte goes up and down once.
func (s *shape) switched(bytes, passes float64) float64 {
	n := float64(s.size)
	return s.innerSetup + passes*s.innerLat + passes*(n-1)/n*bytes/(s.inner*nvlsGain)
}

// nvlsGain is the measured bandwidth of an all-reduce in switches relative to rings on the same links: 482
// GB/s of 450 where a ring reaches about 360.
const nvlsGain = 1.3

// directBandwidth is the bandwidth of many simultaneous messages relative to rings: 0.60 against 0.67 of the
// link on B200, 0.65 against 0.72 on A100.
const directBandwidth = 0.9

// allToAll sends every member its part at once: traffic within the host and out of it overlaps.
func (s *shape) allToAll(bytes float64) float64 {
	n := float64(s.size)
	inside := float64(s.local-1) / n * bytes / (s.inner * directBandwidth)
	if s.hosts == 1 {
		return s.innerSetup + (n-1)*s.innerLat/2 + inside
	}
	across := (n - float64(s.local)) / n * bytes / (s.outer / float64(s.local))
	return math.Max(s.innerSetup, s.outerUp) + float64(s.hosts-1)*s.outerLat/2 + math.Max(inside, across)
}

func (s *shape) sendRecv(bytes float64) float64 {
	if s.local > 1 && s.hosts == 1 {
		return s.innerLat + bytes/s.inner
	}
	return s.outerLat + bytes/(s.outer/float64(s.local))
}
