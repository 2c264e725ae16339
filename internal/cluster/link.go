package cluster

import "slices"

// habit is the default properties of a kind of link.
type habit struct {
	kind       string
	efficiency float64
	latency    float64
	setup      float64
}

// habits come from published micro-benchmarks: all-reduces on 2 to 8 A100 of 1 MiB to 1 GiB (40 µs, 2 µs a
// hop and 0.70 of 300 GB/s give them to 6%), SimAI's tables of 2 to 128 hosts (9 µs a hop, 0.94 of the card),
// Calculon and SimuMax for the rest.
var habits = []habit{
	{"nvlink", 0.72, 2e-6, 30e-6},
	{"nvmesh", 0.86, 2e-6, 30e-6},
	{"xgmi", 0.70, 3e-6, 35e-6},
	{"pcie", 0.45, 5e-6, 30e-6},
	{"ici", 0.85, 1e-6, 5e-6},
	{"ib", 0.92, 9e-6, 30e-6},
	{"roce", 0.88, 10e-6, 30e-6},
	{"opa", 0.80, 10e-6, 30e-6},
	{"eth", 0.75, 25e-6, 50e-6},
	{"memory", 0.9, 0.3e-6, 1e-6},
}

var otherHabit = habit{"", 0.75, 5e-6, 30e-6}

// usual fills the properties that are not set with the defaults of the link's kind.
func (l Link) usual() Link {
	if l.Efficiency > 0 && l.Latency > 0 && l.Setup > 0 {
		return l
	}
	h := otherHabit
	for _, c := range habits {
		if c.kind == l.Kind {
			h = c
		}
	}
	if l.Efficiency == 0 {
		l.Efficiency = h.efficiency
	}
	if l.Latency == 0 {
		l.Latency = h.latency
	}
	if l.Setup == 0 {
		l.Setup = h.setup
	}
	return l
}

// inside returns the bandwidth of a member of a group of n among the devices of a host. In a mesh, wires
// connect each pair of devices, and a group uses only those between its members: on DGX-1V, 22 of 150 GB/s
// for two devices, 84 for four and 129 for eight.
func (l Link) inside(n, devices int) float64 {
	b := l.Bandwidth * l.Efficiency
	if l.Kind == "nvmesh" && n < devices {
		b *= float64(max(1, n-1)) / float64(devices-1)
	}
	return b
}

// Filled returns the cluster with the defaults of each link's kind filled in: the same costs, computed
// faster.
func (c *Cluster) Filled() *Cluster {
	out := *c
	out.Groups = slices.Clone(c.Groups)
	for i := range out.Groups {
		g := &out.Groups[i]
		for _, l := range []*Link{&g.Fabric, &g.NIC, &g.Bus} {
			*l = l.usual()
		}
	}
	return &out
}

// Usual returns the link with the defaults of its kind for properties that are not set.
func (l Link) Usual() Link { return l.usual() }
