package cluster

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Parse reads a cluster: YAML, or a line like
//
//	64x8 H100-SXM ib=400G
//	16 DGX-H100 leaf=8 over=7
//	8 Local
//	2x4 V100-SXM2-16GB eth=10G nics=1 + 1x4 T4 eth=50G nics=1
//
// The numbers are hosts and devices a host, 2x8xH100 is 2x8 H100; one number alone is devices of one host.
// Local is this machine,
// whose cores and memory in-process devices share. Options after the name:
//
//	ib= roce= eth= opa=      one network card, 400G is 400 Gb/s
//	nics=                    cards a host; one for each device unless said
//	nvlink= pcie= xgmi= ici= one device's bandwidth to others of its host, 450GB/s
//	mem= bw= units= bf16=    the device itself: 80GB, 2TB/s, 108, 312T; also fp32, tf32, fp16, fp8, fp6, fp4, int8
//	host= bus=               the host's memory, and a device's bandwidth to it
//	leaf= over=              hosts below one switch, and how much the switches above are oversubscribed
func Parse(text string) (*Cluster, error) {
	if strings.ContainsAny(text, ":\n") {
		c, err := ParseYAML([]byte(text))
		if err != nil && !strings.Contains(text, "\n") && oneWord(text) {
			return nil, fmt.Errorf("cluster: got %q: want a count and a device, like 8 H100-SXM or 64x8 H100-SXM "+
				"ib=400G, or YAML", text)
		}
		return c, err
	}
	c := &Cluster{}
	for _, part := range strings.Split(text, "+") {
		g, err := c.parseGroup(strings.Fields(part))
		if err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		c.Groups = append(c.Groups, g)
	}
	return c, c.Check()
}

// oneWord reports whether a text cannot be YAML, which has a blank after a key's colon.
func oneWord(text string) bool { return !strings.Contains(text, ": ") }

// glued matches a count joined to its device: 8xH100, 2x8xH100-SXM.
var glued = regexp.MustCompile(`^(\d+(?:x\d+)?)[x*]([A-Za-z].*)$`)

func (c *Cluster) parseGroup(words []string) (Group, error) {
	if len(words) > 0 {
		if m := glued.FindStringSubmatch(words[0]); m != nil {
			words = append([]string{m[1], m[2]}, words[1:]...)
		}
	}
	if len(words) < 2 {
		return Group{}, fmt.Errorf("want a count and a device, like 64x8 H100-SXM ib=400G: got %q",
			strings.Join(words, " "))
	}
	hosts, devices, err := counts(words[0])
	if err != nil {
		return Group{}, err
	}
	name := words[1]
	options := words[2:]
	for len(options) > 0 && !strings.Contains(options[0], "=") { // names of hosts may have blanks
		name += " " + options[0]
		options = options[1:]
	}
	g, over, err := named(name, hosts, devices, options)
	if err != nil {
		return Group{}, err
	}
	if over > 0 {
		c.Tiers = append(c.Tiers, Tier{Name: "spine", Over: over})
	}
	for _, o := range options {
		if err := c.option(&g, o); err != nil {
			return Group{}, err
		}
	}
	return g.connected(), nil
}

// counts parses 64x8, or 8 for one host.
func counts(s string) (hosts, devices int, err error) {
	a, b, two := strings.Cut(s, "x")
	x, err := strconv.Atoi(a)
	if err != nil {
		return 0, 0, fmt.Errorf("count %q: want hosts x devices, like 64x8", s)
	}
	if !two {
		return 0, x, nil
	}
	if x < 1 {
		return 0, 0, fmt.Errorf("count %q: want 1 to %d hosts", s, maxHosts)
	}
	y, err := strconv.Atoi(b)
	if err != nil {
		return 0, 0, fmt.Errorf("count %q: want hosts x devices, like 64x8", s)
	}
	return x, y, nil
}

// named returns the group for the name of a device or of a whole host. hosts is 0 if one number was given:
// devices of one host, or hosts.
func named(name string, hosts, devices int, options []string) (g Group, over float64, err error) {
	if strings.EqualFold(name, "local") {
		if hosts > 1 {
			return Group{}, 0, fmt.Errorf("%dx%d %s: it is this machine alone: want a number of devices, like 8 Local",
				hosts, devices, name)
		}
		g := Local(LocalConfig{Devices: devices}).Groups[0]
		g.Devices = devices
		return g, 0, nil
	}
	if h, ok := findHost(name); ok {
		g, err := Preset(h.Device)
		if err != nil {
			return Group{}, 0, err
		}
		g.Hosts, g.Devices, g.NICs = devices, h.Devices, h.NICs
		if hosts > 0 {
			g.Hosts, g.Devices = hosts, devices
		}
		g.NIC = Link{Kind: "ib", Bandwidth: h.NIC * 1e9}
		return g, h.Over, nil
	}
	g, err = Preset(name)
	if err != nil {
		if !describesDevice(options) {
			return Group{}, 0, err
		}
		g = Group{Device: Device{Name: name}}
	}
	g.Hosts, g.Devices = max(1, hosts), devices
	return g, 0, nil
}

// describesDevice reports whether options describe a device without a preset.
func describesDevice(options []string) bool {
	mem, rate := false, false
	for _, o := range options {
		key, _, _ := strings.Cut(o, "=")
		mem = mem || key == "mem"
		rate = rate || isFormat(key)
	}
	return mem && rate
}

var (
	networks = []string{"ib", "roce", "eth", "opa"}
	fabrics  = []string{"nvlink", "nvmesh", "pcie", "xgmi", "ici", "memory"}
)

// option applies one option such as ib=400G.
func (c *Cluster) option(g *Group, word string) error {
	key, value, ok := strings.Cut(word, "=")
	if !ok {
		return fmt.Errorf("option %q: want name=value, like ib=400G", word)
	}
	var err error
	switch key {
	case "nics", "units", "leaf":
		var n int
		if n, err = strconv.Atoi(value); err == nil {
			c.count(g, key, n)
		}
	case "over":
		var x float64
		if x, err = strconv.ParseFloat(value, 64); err == nil {
			c.Tiers = append(c.Tiers, Tier{Name: "spine", Over: x})
		}
	default:
		err = g.quantity(key, value)
	}
	if err != nil {
		return fmt.Errorf("option %s: %w", word, err)
	}
	return nil
}

func (c *Cluster) count(g *Group, key string, n int) {
	switch key {
	case "nics":
		g.NICs = n
	case "units":
		g.Device.Units = n
	case "leaf":
		c.Tiers = append(c.Tiers, Tier{Name: "leaf", Hosts: n})
	}
}

// quantity sets an option that has a unit.
func (g *Group) quantity(key, value string) (err error) {
	switch {
	case contains(networks, key):
		g.NIC.Kind = key
		g.NIC.Bandwidth, err = measure(value, speedUnits)
	case contains(fabrics, key):
		g.Fabric = Link{Kind: key}
		g.Fabric.Bandwidth, err = measure(value, speedUnits)
	case isFormat(key):
		var peak float64
		if peak, err = measure(value, rateUnits); err == nil {
			g.Device.setRate(Rate{Format: key, Peak: peak})
		}
	case key == "mem":
		g.Device.Memory, err = measure(value, byteUnits)
	case key == "bw":
		g.Device.Bandwidth, err = measure(value, speedUnits)
	case key == "host":
		g.Memory, err = measure(value, byteUnits)
	case key == "bus":
		g.Bus = Link{Kind: "pcie"}
		g.Bus.Bandwidth, err = measure(value, speedUnits)
	default:
		return fmt.Errorf("no such option: want one of %s, %s, %s, nics, units, leaf, over, mem, bw, host, bus",
			strings.Join(networks, ", "), strings.Join(fabrics, ", "), strings.Join(formats, ", "))
	}
	return err
}

func contains(words []string, w string) bool {
	for _, x := range words {
		if x == w {
			return true
		}
	}
	return false
}

// connected fills in what a line may omit: one card for each device, and the usual network of hosts with this
// device.
func (g Group) connected() Group {
	if g.NIC.Bandwidth > 0 && g.NICs == 0 {
		g.NICs = g.Devices
	}
	if g.NIC.Bandwidth > 0 || g.Hosts == 1 && g.NICs == 0 {
		return g
	}
	for _, h := range presets().Hosts {
		if h.Device != g.Device.Name {
			continue
		}
		g.NIC = Link{Kind: "ib", Bandwidth: h.NIC * 1e9}
		if g.NICs == 0 {
			g.NICs = max(1, h.NICs*g.Devices/h.Devices)
		}
		break
	}
	return g
}

// Connected returns the group with the usual network of hosts with this device, if it has several hosts and
// no network was given.
func (g Group) Connected() Group { return g.connected() }
