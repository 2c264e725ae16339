package runs

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/galley-ml/galley/internal/cluster"
)

// readCluster builds the hardware of a row: the preset of its device, overridden by the row's own numbers.
func (c *runCase) readCluster() error {
	r := &c.row.Cluster
	if len(r.Nodes) > 0 {
		return c.readNodes()
	}
	if r.GPUs == nil {
		n := c.strategy.Devices()
		r.GPUs = &n
	}
	if *r.GPUs < 1 {
		return notGiven("number of devices")
	}
	if n := c.strategy.Devices(); n != *r.GPUs {
		return fmt.Errorf("dp·tp·pp·cp is %d, devices are %d", n, *r.GPUs)
	}
	g, err := cluster.Preset(r.GPU)
	if err != nil {
		if g, err = described(r); err != nil {
			return err
		}
	}
	if err := c.overrule(&g); err != nil {
		return err
	}
	g.Devices = min(usualHost, *r.GPUs)
	if r.PerNode != nil && *r.PerNode > 0 {
		g.Devices = min(*r.PerNode, *r.GPUs)
	}
	c.evenHosts(&g, *r.GPUs)
	g.Hosts = *r.GPUs / g.Devices
	if *r.GPUs > g.Devices {
		c.network(&g)
	}
	c.cluster = &cluster.Cluster{Groups: []cluster.Group{g}}
	if rest := *r.GPUs % g.Devices; rest > 0 { // the last host is not full
		last := g
		last.Hosts, last.Devices, last.NICs = 1, rest, max(1, g.NICs*rest/g.Devices)
		c.cluster.Groups = append(c.cluster.Groups, last)
	}
	if err := c.cluster.Check(); err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "cluster: "))
	}
	return nil
}

// evenHosts leaves devices of large hosts idle if that makes hosts equal: 256 devices are 4 times 64 of racks
// of 72.
func (c *runCase) evenHosts(g *cluster.Group, devices int) {
	for n := g.Devices; 4*n >= 3*g.Devices; n-- {
		if devices%n == 0 {
			if n < g.Devices {
				c.assume("%d of %d devices in a host", n, g.Devices)
			}
			g.Devices = n
			return
		}
	}
}

// usualHost is the number of devices of a host if a row does not specify it.
const usualHost = 8

// network sets the row's network, or that of hosts known to have the device, or a usual one.
func (c *runCase) network(g *cluster.Group) {
	if r := &c.row.Cluster; r.Inter != nil && *r.Inter > 0 {
		g.NIC, g.NICs = cluster.Link{Kind: networkKind(r.Note), Bandwidth: *r.Inter * 1e9}, g.Devices
		return
	}
	if networkKind(c.row.Cluster.Note) == "opa" { // known by its name: 100 Gb/s
		c.assume("a card of 12.5 GB/s for each device")
		g.NIC, g.NICs = cluster.Link{Kind: "opa", Bandwidth: 12.5e9}, g.Devices
		return
	}
	if speed, whole := notedSpeed(c.row.Cluster.Note); speed > 0 {
		g.NIC, g.NICs = cluster.Link{Kind: networkKind(c.row.Cluster.Note), Bandwidth: speed}, g.Devices
		if whole {
			g.NIC.Bandwidth /= float64(g.Devices)
		}
		c.assume("a card of %.3g GB/s for each device", g.NIC.Bandwidth/1e9)
		return
	}
	c.assume("network")
	hosts := g.Hosts
	g.Hosts = 2
	*g = g.Connected()
	g.Hosts = hosts
	if g.NICs == 0 {
		g.NIC, g.NICs = cluster.Link{Kind: "ib", Bandwidth: 25e9}, g.Devices
	}
}

// linkSpeed is a speed as networks are sold: 400 Gb/s, 4x100Gb, 100GbE.
var linkSpeed = regexp.MustCompile(`(?i)(?:(\d+)\s*x\s*)?(\d+)\s*G(?:bps|b/s|be|bit/s|b)\b`)

// notedSpeed returns the bytes a second that a note gives for a device's card or, if whole, all cards of a
// host; 0 if it has none. Measured speeds are not those of a card.
func notedSpeed(note string) (speed float64, whole bool) {
	m := linkSpeed.FindStringSubmatch(note)
	note = strings.ToLower(note)
	if m == nil || strings.Contains(note, "measured") {
		return 0, false
	}
	speed = float64(*number(m[2])) / 8 * 1e9
	if n := number(m[1]); n != nil {
		speed *= float64(*n)
		whole = true
	}
	return speed, whole || containsAny(note, []string{"per node", "per host", "per server", "a node", "a host"})
}

// networkKind returns the kind of network that a note names; by default InfiniBand for machines built for
// training, and Ethernet for rented ones without GPUDirect.
func networkKind(note string) string {
	note = strings.ToLower(note)
	for _, k := range []struct{ word, kind string }{{"omni-path", "opa"}, {"roce", "roce"}, {"ethernet", "eth"},
		{"g4dn", "eth"}, {"p3.", "eth"}, {"g5.", "eth"}} {
		if strings.Contains(note, k.word) {
			return k.kind
		}
	}
	return "ib"
}

// described returns a device without a preset, if a row has its numbers.
func described(r *runCluster) (cluster.Group, error) {
	for _, f := range []struct {
		x    *float64
		name string
	}{{r.Peak, "peak rate"}, {r.Memory, "memory"}, {r.HBM, "memory bandwidth"}, {r.Intra,
		"bandwidth in a host"}} {
		if f.x == nil {
			return cluster.Group{}, fmt.Errorf("unknown hardware %q, and its %s is not given", r.GPU, f.name)
		}
	}
	return cluster.Group{Device: cluster.Device{Name: r.GPU}, Fabric: cluster.Link{Kind: "pcie"}}, nil
}

// overrule overrides the preset with the row's numbers.
func (c *runCase) overrule(g *cluster.Group) error {
	r := &c.row.Cluster
	if r.Memory != nil {
		g.Device.Memory = *r.Memory * 1e9
	}
	if r.HBM != nil {
		g.Device.Bandwidth = *r.HBM * 1e9
	}
	if _, ok := g.Device.Rate("bf16"); !ok {
		if r.Peak == nil {
			return notGiven("peak rate of " + r.GPU)
		}
		g.Device.Rates = []cluster.Rate{{Format: "fp16", Peak: *r.Peak * 1e12},
			{Format: "bf16", Peak: *r.Peak * 1e12}, {Format: "fp8", Peak: 2 * *r.Peak * 1e12}}
		g.Device = slowed(g.Device)
	}
	if r.Intra != nil {
		g.Fabric.Bandwidth = *r.Intra * 1e9
	}
	return nil
}

// readNodes builds a mixed cluster, hosts in the order given.
func (c *runCase) readNodes() error {
	r := &c.row.Cluster
	out := &cluster.Cluster{}
	per := max(1, value(r.PerNode))
	for _, n := range r.Nodes {
		g, err := cluster.Preset(n.GPU)
		if err != nil {
			return fmt.Errorf("unknown hardware %q", n.GPU)
		}
		g.Hosts, g.Devices = 1, per
		if n.GPUs != nil {
			g.Devices = *n.GPUs
		}
		if n.Intra > 0 {
			g.Fabric.Bandwidth = n.Intra / 8 * 1e9 // of two devices, in a mesh or not
			if g.Fabric.Kind == "nvmesh" {
				g.Fabric.Kind = "nvlink"
			}
		}
		g.NICs, g.NIC = 1, cluster.Link{Kind: "eth", Bandwidth: n.Inter / 8 * 1e9}
		out.Groups = append(out.Groups, g)
	}
	c.cluster = out
	if n := c.strategy.Devices(); n != out.Size() {
		return fmt.Errorf("dp·tp·pp·cp is %d, devices are %d", n, out.Size())
	}
	return out.Check()
}

// slowed returns a device with a power cap below that of the one whose peak it has: NVIDIA's own figure for
// such a part is 835 of 989 (H100 NVL), and the best measured rate of the full one is 794.
func slowed(d cluster.Device) cluster.Device {
	if !strings.HasSuffix(d.Name, "W") {
		return d
	}
	for i := range d.Rates {
		d.Rates[i].Measured = d.Rates[i].Peak * 794.5 / 989 * 835 / 989
	}
	return d
}
