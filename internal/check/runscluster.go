package check

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/cluster"
)

// readCluster builds the hardware of a row: the preset of its device, with the row's own numbers over it.
func (c *runCase) readCluster() error {
	r := &c.row.Cluster
	if len(r.Nodes) > 0 {
		return c.readNodes()
	}
	if r.GPUs == nil || *r.GPUs < 1 {
		return notGiven("number of devices")
	}
	if n := c.strategy.World(); n != *r.GPUs {
		return fmt.Errorf("dp·tp·pp·cp is %d, devices are %d", n, *r.GPUs)
	}
	g, err := cluster.Preset(r.GPU)
	if err != nil {
		return fmt.Errorf("unknown hardware %q", r.GPU)
	}
	if err := c.overrule(&g); err != nil {
		return err
	}
	g.Devices = *r.GPUs
	if r.PerNode != nil && *r.PerNode > 0 {
		g.Devices = min(*r.PerNode, *r.GPUs)
	}
	if *r.GPUs%g.Devices != 0 {
		return fmt.Errorf("%d devices do not fill hosts of %d", *r.GPUs, g.Devices)
	}
	g.Hosts = *r.GPUs / g.Devices
	if r.Inter != nil {
		g.NIC = cluster.Link{Kind: "ib", Bandwidth: *r.Inter * 1e9}
		g.NICs = g.Devices
	} else if g.Hosts > 1 {
		c.assumed = append(c.assumed, "network")
	}
	c.cluster = &cluster.Cluster{Groups: []cluster.Group{g.Connected()}}
	if err := c.cluster.Check(); err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "cluster: "))
	}
	return nil
}

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
		g.Device.Rates = []cluster.Rate{{Format: "fp16", Peak: *r.Peak * 1e12}, {Format: "bf16", Peak: *r.Peak * 1e12}, {Format: "fp8", Peak: 2 * *r.Peak * 1e12}}
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
			g.Fabric.Bandwidth = n.Intra / 8 * 1e9
		}
		g.NICs, g.NIC = 1, cluster.Link{Kind: "eth", Bandwidth: n.Inter / 8 * 1e9}
		out.Groups = append(out.Groups, g)
	}
	c.cluster = out
	if n := c.strategy.World(); n != out.Size() {
		return fmt.Errorf("dp·tp·pp·cp is %d, devices are %d", n, out.Size())
	}
	return out.Check()
}

// slowed is a device whose power is capped below that of the one whose peak it is given: NVIDIA's own figure for such a part is 835 of
// 989 (H100 NVL), and the best measured rate of the full one is 794.
func slowed(d cluster.Device) cluster.Device {
	if !strings.HasSuffix(d.Name, "W") {
		return d
	}
	for i := range d.Rates {
		d.Rates[i].Measured = d.Rates[i].Peak * 794.5 / 989 * 835 / 989
	}
	return d
}
