package cluster

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/strict"
)

// Cluster is the hardware of a job. It is immutable after it was made, and may be used from many
// goroutines.
type Cluster struct {
	// Name is its name; it may be empty.
	Name string
	// Groups are sets of equal hosts, in the order of their devices' numbers.
	Groups []Group
	// Tiers are the switches above the hosts, nearest first. No tiers means one non-blocking switch.
	Tiers []Tier
	// Wires are additional links between two devices or two hosts.
	Wires []Wire
	// Measured is measured times of links and collectives; costs are computed from the links, which were fitted
	// to it.
	Measured []Measurement
}

// Measurement is the time of a message or a collective between processes.
type Measurement struct {
	// What is message, or a collective's name as in Kind; Between is between what.
	What    string `yaml:"what"`
	Between string `yaml:"between"`
	// Members is the number of participants, and Bytes the bytes of each.
	Members int     `yaml:"members"`
	Bytes   float64 `yaml:"bytes"`
	// Shared reports whether others did the same at the same time.
	Shared bool `yaml:"shared,omitempty"`
	// Seconds is the median of some measurements, Spread half of their interquartile range, relative to
	// it.
	Seconds float64 `yaml:"seconds"`
	Spread  float64 `yaml:"spread"`
}

// Group is a number of equal hosts.
type Group struct {
	// Hosts is the number of hosts.
	Hosts int
	// Devices is the number of devices of each host.
	Devices int
	// Device describes the devices.
	Device Device
	// Fabric connects the devices of a host.
	Fabric Link
	// NICs is the number of network cards of a host; NIC is one of them. With 0 NICs a host reaches no other.
	NICs int
	NIC  Link
	// Bus connects a device to the host's memory, for offloading.
	Bus Link
	// Memory is the host's memory for offloading, in bytes.
	Memory float64
}

// Link is a connection, in one direction.
type Link struct {
	// Kind is nvlink, nvmesh (direct wires instead of switches), pcie, xgmi, ici, ib, eth, roce, memory or any
	// other name.
	Kind string
	// Bandwidth is bytes a second by the specification, for one device on a fabric or one network card.
	Bandwidth float64
	// Latency is seconds before the first byte arrives; 0 means the default of the kind.
	Latency float64
	// Efficiency is the part of Bandwidth that large messages reach; 0 means the default of the kind.
	Efficiency float64
	// Setup is seconds that a collective takes before it moves anything; 0 means the default of the kind.
	Setup float64
	// Spread is the relative variation of measured times; 0 if they were not measured.
	Spread float64
}

// Tier is one level of switches above the hosts.
type Tier struct {
	Name string
	// Hosts is the number of hosts below one switch; 0 means all.
	Hosts int
	// Over is the oversubscription factor: the bandwidth below a switch divided by that of its uplinks; 0 and 1
	// mean non-blocking.
	Over float64
	// Latency is the seconds that passing it adds.
	Latency float64
}

// Wire is a link between two devices or two hosts, by name: h3 is host 3, h3/d5 its device 5.
type Wire struct {
	From, To string
	Link     Link
}

// Size returns the number of devices.
func (c *Cluster) Size() int {
	n := 0
	for _, g := range c.Groups {
		n += g.Hosts * g.Devices
	}
	return n
}

// NumHosts returns the number of hosts.
func (c *Cluster) NumHosts() int {
	n := 0
	for _, g := range c.Groups {
		n += g.Hosts
	}
	return n
}

// Uniform reports whether all hosts are equal and connected only by switches.
func (c *Cluster) Uniform() bool { return len(c.Groups) == 1 && len(c.Wires) == 0 }

// Place is where a device is.
type Place struct {
	// Group is the index of its group of hosts, Host its host's number in the cluster, Local its number in the
	// host.
	Group, Host, Local int
}

// At returns the place of device i, which must be less than Size.
func (c *Cluster) At(i int) Place {
	host := 0
	for gi, g := range c.Groups {
		if n := g.Hosts * g.Devices; i >= n {
			i -= n
			host += g.Hosts
			continue
		}
		return Place{Group: gi, Host: host + i/g.Devices, Local: i % g.Devices}
	}
	panic(fmt.Sprintf("cluster: no device %d among %d", i, c.Size()))
}

// DeviceAt returns the description of device i.
func (c *Cluster) DeviceAt(i int) *Device { return &c.Groups[c.At(i).Group].Device }

// Check returns an error if the cluster is not valid.
func (c *Cluster) Check() error {
	if err := strict.CheckName("cluster: name", c.Name); err != nil {
		return err
	}
	if len(c.Groups) == 0 {
		return fmt.Errorf("cluster: no hosts: want at least one group, like 8x8 H100-SXM")
	}
	for i := range c.Groups {
		if err := c.Groups[i].check(); err != nil {
			return err
		}
	}
	if c.NumHosts() > 1 {
		for _, g := range c.Groups {
			if g.NICs == 0 && len(c.Wires) == 0 {
				return fmt.Errorf("cluster: %d hosts of %s have no way to each other: want a network, like ib=400G",
					c.NumHosts(), g.Device.Name)
			}
		}
	}
	for _, t := range c.Tiers {
		if err := strict.CheckName("cluster: tier", t.Name); err != nil {
			return err
		}
		if t.Hosts < 0 || bad(t.Over) || bad(t.Latency) {
			return fmt.Errorf(
				"cluster: tier %q: hosts, oversubscription and latency must be finite and not negative: got %d, %g, %g",
				t.Name,
				t.Hosts,
				t.Over,
				t.Latency,
			)
		}
	}
	for _, m := range c.Measured {
		if bad(m.Bytes) || bad(m.Seconds) || bad(m.Spread) || m.Members < 0 {
			return fmt.Errorf(
				"cluster: measured %s: bytes %g, seconds %g, spread %g and members %d must be finite and not negative",
				m.What,
				m.Bytes,
				m.Seconds,
				m.Spread,
				m.Members,
			)
		}
	}
	return c.checkWires()
}

// The largest numbers that a cluster may have: above them a number is a typing mistake, and sums could
// overflow.
const (
	maxHosts   = 1 << 20
	maxDevices = 1 << 12
)

func (g *Group) check() error {
	switch {
	case g.Hosts < 1 || g.Hosts > maxHosts || g.Devices < 1 || g.Devices > maxDevices:
		return fmt.Errorf("cluster: %dx%d %s: want 1 to %d hosts of 1 to %d devices", g.Hosts, g.Devices,
			g.Device.Name, maxHosts, maxDevices)
	case g.NICs < 0 || g.NICs > maxDevices:
		return fmt.Errorf("cluster: %s: got %d network cards a host, want 0 to %d", g.Device.Name, g.NICs,
			maxDevices)
	case g.Devices > 1 && !(g.Fabric.Bandwidth > 0):
		return fmt.Errorf(
			"cluster: %s: no bandwidth is known between the devices of a host: give one, like nvlink=450GB/s",
			g.Device.Name,
		)
	case g.NICs > 0 && !(g.NIC.Bandwidth > 0):
		return fmt.Errorf("cluster: %s: network cards without bandwidth: give one, like ib=400G", g.Device.Name)
	case bad(g.Memory):
		return fmt.Errorf("cluster: %s: host memory must be finite and not negative: got %g", g.Device.Name,
			g.Memory)
	}
	for _, l := range []Link{g.Fabric, g.NIC, g.Bus} {
		if err := l.check(g.Device.Name); err != nil {
			return err
		}
	}
	return g.Device.check()
}

func (l *Link) check(of string) error {
	if bad(l.Bandwidth) || bad(l.Latency) || bad(l.Setup) || bad(l.Efficiency) || l.Efficiency > 1 ||
		bad(l.Spread) {
		return fmt.Errorf(
			"cluster: %s: link %q: bandwidth %g, latency %g, setup %g must be finite and not negative, efficiency "+
				"%g at most 1",
			of,
			l.Kind,
			l.Bandwidth,
			l.Latency,
			l.Setup,
			l.Efficiency,
		)
	}
	return nil
}

// bad reports whether a number cannot be a quantity of hardware.
func bad(x float64) bool { return !(x >= 0 && x < 1e300) }

// Equal reports whether two clusters are the same.
func (c *Cluster) Equal(d *Cluster) bool {
	return c.Name == d.Name && slices.EqualFunc(c.Groups, d.Groups, Group.equal) &&
		slices.Equal(c.Tiers, d.Tiers) && slices.Equal(c.Wires, d.Wires) && slices.Equal(c.Measured, d.Measured)
}

func (g Group) equal(h Group) bool {
	return g.Hosts == h.Hosts && g.Devices == h.Devices && g.Device.equal(&h.Device) && g.Fabric == h.Fabric &&
		g.NICs == h.NICs &&
		g.NIC == h.NIC && g.Bus == h.Bus && g.Memory == h.Memory
}
