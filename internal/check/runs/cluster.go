package runs

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/galley-ml/galley/internal/cluster"
)

// readCluster builds the hardware of a row: the preset of its device, with the row's own numbers over it.
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
	g, err := device(r.GPU)
	if err != nil {
		return err
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
	if rest := *r.GPUs % g.Devices; rest > 0 { // a host that is not full
		last := g
		last.Hosts, last.Devices, last.NICs = 1, rest, max(1, g.NICs*rest/g.Devices)
		c.cluster.Groups = append(c.cluster.Groups, last)
	}
	if err := c.cluster.Check(); err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "cluster: "))
	}
	return nil
}

// evenHosts leaves devices of large hosts idle where that makes hosts alike: 256 devices are 4 times 64 of
// racks of 72.
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

// usualHost is how many devices a host has where a row does not say.
const usualHost = 8

// network gives hosts the row's network, or that of hosts known to have the device, or a usual one.
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
	c.assume("network")
	hosts := g.Hosts
	g.Hosts = 2
	*g = g.Connected()
	g.Hosts = hosts
	if g.NICs == 0 {
		g.NIC, g.NICs = cluster.Link{Kind: "ib", Bandwidth: 25e9}, g.Devices
	}
}

// networkKind returns the kind of network that a note names; that of machines built for training is
// InfiniBand, that of rented ones, unless they have GPUDirect, Ethernet.
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

// device returns the preset of a name as people write it: A100-SXM4-80GB and A100 80GB are A100-SXM-80GB.
func device(name string) (cluster.Group, error) {
	for _, n := range []string{name, strings.ReplaceAll(name, " ", "-"), socket.ReplaceAllString(name, "SXM")} {
		if g, err := cluster.Preset(n); err == nil {
			return g, nil
		}
	}
	return cluster.Group{}, fmt.Errorf("unknown hardware %q", name)
}

// socket is a number of NVIDIA's sockets, which names seldom have.
var socket = regexp.MustCompile(`SXM\d`)

// overrule puts the row's numbers over the preset's.
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
		g, err := device(n.GPU)
		if err != nil {
			return err
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

// slowed returns a device whose power is capped below that of the one whose peak it is given: NVIDIA's own
// figure for such a part is 835 of 989 (H100 NVL), and the best measured rate of the full one is 794.
func slowed(d cluster.Device) cluster.Device {
	if !strings.HasSuffix(d.Name, "W") {
		return d
	}
	for i := range d.Rates {
		d.Rates[i].Measured = d.Rates[i].Peak * 794.5 / 989 * 835 / 989
	}
	return d
}
