package cluster

import (
	"fmt"
	"strconv"
	"strings"
)

func (c *Cluster) checkWires() error {
	for _, w := range c.Wires {
		if _, err := c.vertex(w.From); err != nil {
			return err
		}
		if _, err := c.vertex(w.To); err != nil {
			return err
		}
		if !(w.Link.Bandwidth > 0) {
			return fmt.Errorf("cluster: wire %s to %s: no bandwidth", w.From, w.To)
		}
		if err := w.Link.check(w.From + " to " + w.To); err != nil {
			return err
		}
	}
	return nil
}

// vertex returns the number of a device or host in the graph: devices first, then hosts.
func (c *Cluster) vertex(name string) (int, error) {
	host, device, isDevice := strings.Cut(name, "/")
	h, err := number(host, "h")
	if err != nil || h >= c.NumHosts() {
		return 0, fmt.Errorf("cluster: wire to %q: want a host h0 to h%d, or one of its devices like h0/d1", name,
			c.NumHosts()-1)
	}
	if !isDevice {
		return c.Size() + h, nil
	}
	first := 0
	for _, g := range c.Groups {
		if h >= g.Hosts {
			h -= g.Hosts
			first += g.Hosts * g.Devices
			continue
		}
		d, err := number(device, "d")
		if err != nil || d >= g.Devices {
			return 0, fmt.Errorf("cluster: wire to %q: the host has devices d0 to d%d", name, g.Devices-1)
		}
		return first + h*g.Devices + d, nil
	}
	panic("cluster: a host below NumHosts is in no group")
}

func number(s, letter string) (int, error) {
	digits, ok := strings.CutPrefix(s, letter)
	if !ok {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.Atoi(digits)
	if err == nil && n < 0 {
		return 0, strconv.ErrSyntax
	}
	return n, err
}

// Between returns the route from device a to device b without other traffic: its bandwidth, with the
// efficiency of large messages, and its latency.
func (c *Cluster) Between(a, b int) Link {
	if a == b {
		return Link{Kind: "memory", Bandwidth: c.DeviceAt(a).Bandwidth, Efficiency: 1}
	}
	pa, pb := c.At(a), c.At(b)
	best := c.route(pa, pb)
	for _, w := range c.Wires {
		if c.joins(w, a, b, pa, pb) && w.Link.usual().Bandwidth > best.Bandwidth {
			best = w.Link.usual()
		}
	}
	return best
}

// joins reports whether a wire connects two devices or their hosts.
func (c *Cluster) joins(w Wire, a, b int, pa, pb Place) bool {
	u, _ := c.vertex(w.From)
	v, _ := c.vertex(w.To)
	n := c.Size()
	is := func(x, y int) bool { return u == x && v == y || u == y && v == x }
	return is(a, b) || is(n+pa.Host, n+pb.Host) || is(a, n+pb.Host) || is(b, n+pa.Host)
}

// route returns the route through fabrics, cards and switches.
func (c *Cluster) route(a, b Place) Link {
	ga, gb := &c.Groups[a.Group], &c.Groups[b.Group]
	if a.Host == b.Host {
		return ga.Fabric.usual()
	}
	if ga.NICs == 0 || gb.NICs == 0 {
		return Link{Kind: "none"}
	}
	x, y := ga.NIC.usual(), gb.NIC.usual()
	if y.Bandwidth*y.Efficiency < x.Bandwidth*x.Efficiency {
		x.Bandwidth, x.Efficiency, x.Kind = y.Bandwidth, y.Efficiency, y.Kind
	}
	x.Latency, x.Setup = max(x.Latency, y.Latency), max(x.Setup, y.Setup)
	for _, t := range c.Tiers {
		if t.Hosts > 0 && a.Host/t.Hosts == b.Host/t.Hosts {
			break
		}
		x.Latency += t.Latency
		if t.Over > 1 {
			x.Bandwidth /= t.Over
		}
	}
	return x
}
