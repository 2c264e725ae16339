package search

import (
	"math"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
)

// Traffic is the communication between the ranks of a plan in a step, and the computation of each.
type Traffic struct {
	// Ranks is the number of ranks.
	Ranks int
	// Nest holds the sizes of the parallel dimensions, the innermost first: ranks that differ in the first only
	// are numbered consecutively. Their product is Ranks.
	Nest []int
	// Phases happen one after the other: their times add up.
	Phases []Phase
	// Work is the seconds that a rank computes on the cluster's fastest device; nil means none.
	Work []float64
}

// Phase is communication at the same time along rings of ranks: it takes as long as its slowest link or
// network card.
type Phase struct {
	Name  string
	Rings [][]int
	// Bytes is what each rank of a ring sends to the next, the last one to the first. Open rings lack this last
	// message.
	Bytes float64
	Open  bool
}

// topology holds the links of a cluster for pricing: the host of each device, and the bandwidths.
type topology struct {
	c      *cluster.Cluster
	host   []int
	speed  []float64
	nic    []float64 // bytes per second out of a host
	within []float64 // bytes per second between two devices of a host
	cache  map[[2]int]float64
	wired  bool
}

func newTopology(c *cluster.Cluster) *topology {
	r := &topology{c: c, cache: map[[2]int]float64{}, wired: len(c.Wires) > 0,
		nic:    make([]float64, c.NumHosts()),
		within: make([]float64, c.NumHosts())}
	fastest := 0.0
	for d := range c.Size() {
		at := c.At(d)
		g := &c.Groups[at.Group]
		rate, _ := g.Device.Rate("bf16")
		speed := rate.Measured
		if speed == 0 {
			speed = rate.Peak
		}
		fastest = math.Max(fastest, speed)
		r.host, r.speed = append(r.host, at.Host), append(r.speed, speed)
		r.nic[at.Host] = float64(g.NICs) * g.NIC.Bandwidth
		r.within[at.Host] = g.Fabric.Bandwidth
	}
	for d := range r.speed {
		if r.speed[d] /= fastest; fastest == 0 {
			r.speed[d] = 1
		}
	}
	return r
}

// bandwidth returns the bytes per second from one device to another.
func (r *topology) bandwidth(a, b int) float64 {
	key := [2]int{r.host[a], r.host[b]}
	if r.wired {
		key = [2]int{a, b}
	} else if key[0] == key[1] {
		return r.within[key[0]]
	}
	if w, ok := r.cache[key]; ok {
		return w
	}
	l := r.c.Between(a, b)
	w := l.Bandwidth
	if l.Efficiency > 0 {
		w *= l.Efficiency
	}
	r.cache[key] = w
	return w
}

// price returns the seconds of a step's communication and, if devices differ, computation, with ranks on the
// given devices. load is scratch space, by host.
func (r *topology) price(t *Traffic, devices []int, load []float64) float64 {
	worst, _ := r.weigh(t, devices, load)
	return worst
}

// weigh returns the price, and the total time of all ranks: of two mappings with one price, the one with the
// smaller total is closer to a better one.
func (r *topology) weigh(t *Traffic, devices []int, load []float64) (worst, all float64) {
	for i := range t.Phases {
		w, a := r.phase(&t.Phases[i], devices, load)
		worst, all = worst+w, all+a
	}
	slowest := 0.0
	for rank, w := range t.Work {
		x := w / r.speed[devices[rank]]
		slowest, all = math.Max(slowest, x), all+x
	}
	return worst + slowest, all
}

// phase returns the time of the slowest link or of the busiest host's network cards, and the total of all
// links.
func (r *topology) phase(p *Phase, devices []int, load []float64) (worst, all float64) {
	clear(load)
	for _, ring := range p.Rings {
		n := len(ring)
		if n < 2 {
			continue
		}
		for i, rank := range ring {
			if p.Open && i == n-1 {
				break
			}
			a, b := devices[rank], devices[ring[(i+1)%n]]
			x := p.Bytes / r.bandwidth(a, b)
			worst, all = math.Max(worst, x), all+x
			if r.host[a] != r.host[b] {
				load[r.host[a]] += p.Bytes
			}
		}
	}
	for h, bytes := range load {
		if bytes > 0 && r.nic[h] > 0 {
			worst = math.Max(worst, bytes/r.nic[h])
		}
	}
	return worst, all
}

// TrafficOf returns the communication and computation of a plan's ranks in a step, in bytes as if every
// collective were a ring, whatever algorithm a library uses.
func TrafficOf(w plan.Workload, p Plan, on *cluster.Cluster) *Traffic {
	s := p.Strategy
	tp, cp, dp, pp := max(1, s.TP), max(1, s.CP), max(1, s.DP), max(1, s.PP)
	t := &Traffic{Ranks: tp * cp * dp * pp, Nest: []int{tp, cp, dp, pp}}
	micros := float64(s.Micros(w.Batch))
	layers := float64(w.Model.Layers) / float64(pp)
	// bytes of a micro-batch's activations
	part := 2 * float64(max(1, s.MicroBatch)*w.Seq/cp) * float64(w.Model.Hidden)
	share := func(n int) float64 { return float64(n-1) / float64(n) }
	params := w.Model.Params() / float64(tp*pp)
	strides := []int{1, tp, tp * cp, tp * cp * dp}
	// Each layer gathers and scatters twice, forward and backward; keys and values travel once forward and twice
	// backward; gradients of four bytes are reduced, weights of two gathered; activations and their gradients
	// are passed on.
	for i, x := range []struct {
		name  string
		n     int
		bytes float64
		open  bool
	}{
		{"tensor", tp, micros * layers * 8 * share(tp) * part, false},
		{"context", cp, micros * layers * 3 * float64(cp-1) * part * kvShare(&w.Model) / float64(tp), false},
		{"data", dp, share(dp) * params * 6, false},
		{"pipeline", pp, micros * 2 * part / float64(tp), true},
	} {
		if x.n > 1 {
			t.Phases = append(t.Phases, Phase{Name: x.name, Rings: rings(t.Ranks, x.n, strides[i]), Bytes: x.bytes,
				Open: x.open})
		}
	}
	speed := newTopology(on).speed
	t.Work = make([]float64, t.Ranks)
	for r := range t.Work {
		if st := p.Estimate.Stages; len(st) == pp {
			stage := st[r/(t.Ranks/pp)]
			t.Work[r] = micros * (stage.Forward + stage.Backward) * speed[r]
		}
	}
	return t
}

// kvShare returns the width of keys and values relative to the hidden size.
func kvShare(m *plan.Model) float64 {
	if m.KVHeads == 0 {
		return 2
	}
	return 2 * float64(m.KVHeads) / float64(m.Heads)
}

// rings returns the groups of n ranks with the given stride.
func rings(ranks, n, stride int) [][]int {
	var list [][]int
	for first := range ranks {
		if first/stride%n != 0 {
			continue
		}
		ring := make([]int, n)
		for i := range ring {
			ring[i] = first + i*stride
		}
		list = append(list, ring)
	}
	return list
}
