package cluster

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/strict"
	"github.com/goccy/go-yaml"
)

// The file format. Quantities are text with a unit; what a preset defines may be omitted.
type (
	clusterFile struct {
		Name  string      `yaml:"name,omitempty"`
		Hosts []groupFile `yaml:"hosts"`
		Tiers []tierFile  `yaml:"tiers,omitempty"`
		Wires []wireFile  `yaml:"wires,omitempty"`

		Measured []Measurement `yaml:"measured,omitempty"`
	}
	groupFile struct {
		Count     int               `yaml:"count"`
		Devices   int               `yaml:"devices"`
		Device    string            `yaml:"device"`
		Memory    string            `yaml:"memory,omitempty"`
		Bandwidth string            `yaml:"bandwidth,omitempty"`
		Units     int               `yaml:"units,omitempty"`
		Rates     map[string]string `yaml:"rates,omitempty"`
		Measured  map[string]string `yaml:"measured,omitempty"`
		Fabric    *linkFile         `yaml:"fabric,omitempty"`
		NICs      int               `yaml:"nics,omitempty"`
		NIC       *linkFile         `yaml:"nic,omitempty"`
		Bus       *linkFile         `yaml:"bus,omitempty"`
		Host      string            `yaml:"host_memory,omitempty"`
	}
	linkFile struct {
		Kind       string  `yaml:"kind"`
		Bandwidth  string  `yaml:"bandwidth"`
		Latency    string  `yaml:"latency,omitempty"`
		Efficiency float64 `yaml:"efficiency,omitempty"`
		Setup      string  `yaml:"setup,omitempty"`
		Spread     float64 `yaml:"spread,omitempty"`
	}
	tierFile struct {
		Name    string  `yaml:"name,omitempty"`
		Hosts   int     `yaml:"hosts,omitempty"`
		Over    float64 `yaml:"oversubscription,omitempty"`
		Latency string  `yaml:"latency,omitempty"`
	}
	wireFile struct {
		From string   `yaml:"from"`
		To   string   `yaml:"to"`
		Link linkFile `yaml:"link"`
	}
)

// ParseYAML parses a cluster file. Errors have line and column.
func ParseYAML(text []byte) (*Cluster, error) {
	var f clusterFile
	if err := strict.YAML(text, &f); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	r := reader{text: text}
	c := &Cluster{Name: f.Name, Measured: f.Measured}
	for i := range f.Hosts {
		c.Groups = append(c.Groups, r.group(fmt.Sprintf("$.hosts[%d]", i), &f.Hosts[i]))
	}
	for i, t := range f.Tiers {
		at := fmt.Sprintf("$.tiers[%d]", i)
		c.Tiers = append(c.Tiers, Tier{Name: t.Name, Hosts: t.Hosts, Over: t.Over,
			Latency: r.quantity(at+".latency", t.Latency, timeUnits)})
	}
	for i := range f.Wires {
		at := fmt.Sprintf("$.wires[%d]", i)
		c.Wires = append(c.Wires, Wire{From: f.Wires[i].From, To: f.Wires[i].To, Link: r.link(at+".link",
			&f.Wires[i].Link)})
	}
	if r.err != nil {
		return nil, r.err
	}
	return c, c.Check()
}

// reader converts the file's text to numbers; the first error is kept.
type reader struct {
	text []byte
	err  error
}

// fail records an error with the position of the value at a path.
func (r *reader) fail(at string, err error) {
	if r.err != nil {
		return
	}
	place := ""
	if p, perr := yaml.PathString(at); perr == nil {
		if n, nerr := p.ReadNode(bytes.NewReader(r.text)); nerr == nil && n.GetToken() != nil &&
			n.GetToken().Position != nil {
			pos := n.GetToken().Position
			place = fmt.Sprintf("line %d, column %d: ", pos.Line, pos.Column)
		}
	}
	r.err = fmt.Errorf("cluster: %s%s: %w", place, strings.TrimPrefix(at, "$."), err)
}

func (r *reader) quantity(at, s string, units []unit) float64 {
	if s == "" {
		return 0
	}
	x, err := measure(s, units)
	if err != nil {
		r.fail(at, err)
	}
	return x
}

func (r *reader) link(at string, f *linkFile) Link {
	return Link{
		Kind:       f.Kind,
		Bandwidth:  r.quantity(at+".bandwidth", f.Bandwidth, speedUnits),
		Latency:    r.quantity(at+".latency", f.Latency, timeUnits),
		Efficiency: f.Efficiency,
		Setup:      r.quantity(at+".setup", f.Setup, timeUnits),
		Spread:     f.Spread,
	}
}

// group starts from the preset of that name, if there is one, and overrides it with the file's values.
func (r *reader) group(at string, f *groupFile) Group {
	g, err := Preset(f.Device)
	if err != nil {
		if f.Memory == "" || len(f.Rates) == 0 {
			r.fail(at+".device", err)
		}
		g = Group{Device: Device{Name: f.Device}}
	}
	g.Hosts, g.Devices, g.NICs = max(f.Count, 0), f.Devices, f.NICs
	r.device(at, f, &g.Device)
	for _, l := range []struct {
		name string
		from *linkFile
		to   *Link
	}{{"fabric", f.Fabric, &g.Fabric}, {"nic", f.NIC, &g.NIC}, {"bus", f.Bus, &g.Bus}} {
		if l.from != nil {
			*l.to = r.link(at+"."+l.name, l.from)
		}
	}
	g.Memory = r.quantity(at+".host_memory", f.Host, byteUnits)
	return g.connected()
}

func (r *reader) device(at string, f *groupFile, d *Device) {
	if f.Memory != "" {
		d.Memory = r.quantity(at+".memory", f.Memory, byteUnits)
	}
	if f.Bandwidth != "" {
		d.Bandwidth = r.quantity(at+".bandwidth", f.Bandwidth, speedUnits)
	}
	if f.Units > 0 {
		d.Units = f.Units
	}
	if len(f.Rates) > 0 {
		d.Rates = nil
	}
	for _, key := range formats {
		if s, ok := f.Rates[key]; ok {
			d.setRate(Rate{Format: key, Peak: r.quantity(at+".rates."+key, s, rateUnits)})
		}
	}
	for i, rate := range d.Rates {
		if s, ok := f.Measured[rate.Format]; ok {
			d.Rates[i].Measured = r.quantity(at+".measured."+rate.Format, s, rateUnits)
		}
	}
	r.formats(at+".rates", f.Rates)
	r.formats(at+".measured", f.Measured)
}

// formats returns an error for keys that are not number formats.
func (r *reader) formats(at string, m map[string]string) {
	bad := ""
	for key := range m {
		if !isFormat(key) && (bad == "" || key < bad) { // the smallest one, whatever the order of the map
			bad = key
		}
	}
	if bad != "" {
		r.fail(at, fmt.Errorf("number format %q: want one of %s", bad, strings.Join(formats, ", ")))
	}
}

// YAML prints the cluster as a file that parses to the same value.
func (c *Cluster) YAML() []byte {
	f := clusterFile{Name: c.Name, Measured: c.Measured}
	for i := range c.Groups {
		f.Hosts = append(f.Hosts, c.Groups[i].file())
	}
	for _, t := range c.Tiers {
		f.Tiers = append(f.Tiers, tierFile{Name: t.Name, Hosts: t.Hosts, Over: t.Over, Latency: text(t.Latency,
			timeUnits)})
	}
	for _, w := range c.Wires {
		f.Wires = append(f.Wires, wireFile{From: w.From, To: w.To, Link: *w.Link.file()})
	}
	out, err := yaml.Marshal(f)
	if err != nil {
		panic("cluster: " + err.Error())
	}
	return out
}

func (g *Group) file() groupFile {
	f := groupFile{
		Count: g.Hosts, Devices: g.Devices, Device: g.Device.Name, Units: g.Device.Units, NICs: g.NICs,
		Memory: text(g.Device.Memory, byteUnits), Bandwidth: text(g.Device.Bandwidth,
			memoryUnits), Host: text(g.Memory, byteUnits),
		Rates: map[string]string{}, Measured: map[string]string{},
	}
	for _, r := range g.Device.Rates {
		f.Rates[r.Format] = format(r.Peak, rateUnits)
		if r.Measured > 0 {
			f.Measured[r.Format] = format(r.Measured, rateUnits)
		}
	}
	f.Fabric, f.NIC, f.Bus = g.Fabric.file(), g.NIC.file(), g.Bus.file()
	return f
}

func (l *Link) file() *linkFile {
	if *l == (Link{}) {
		return nil
	}
	return &linkFile{Kind: l.Kind, Bandwidth: text(l.Bandwidth, memoryUnits),
		Latency: text(l.Latency, timeUnits), Efficiency: l.Efficiency, Setup: text(l.Setup, timeUnits),
		Spread: l.Spread}
}

// text prints a quantity; empty if it is 0.
func text(x float64, units []unit) string {
	if x == 0 {
		return ""
	}
	return format(x, units)
}

// String prints the cluster in one line if that is possible, as YAML otherwise.
func (c *Cluster) String() string {
	var parts []string
	for i := range c.Groups {
		parts = append(parts, c.Groups[i].line())
	}
	for _, t := range c.Tiers {
		if t.Hosts > 0 {
			parts[len(parts)-1] += " leaf=" + strconv.Itoa(t.Hosts)
		} else if t.Over > 0 {
			parts[len(parts)-1] += " over=" + strconv.FormatFloat(t.Over, 'g', -1, 64)
		}
	}
	line := strings.Join(parts, " + ")
	if back, err := Parse(line); err == nil && back.Equal(c) {
		return line
	}
	return strings.TrimSuffix(string(c.YAML()), "\n")
}

// line prints the group in short, omitting what the preset of that name defines.
func (g *Group) line() string {
	words := []string{fmt.Sprintf("%dx%d", g.Hosts, g.Devices), g.Device.Name}
	p, err := Preset(g.Device.Name)
	if err != nil {
		p = Group{}
	}
	say := func(key string, x, known float64, units []unit) {
		if x != known {
			words = append(words, key+"="+format(x, units))
		}
	}
	say("mem", g.Device.Memory, p.Device.Memory, byteUnits)
	say("bw", g.Device.Bandwidth, p.Device.Bandwidth, memoryUnits)
	for _, r := range g.Device.Rates {
		if known, ok := p.Device.Rate(r.Format); !ok || known != r {
			words = append(words, r.Format+"="+format(r.Peak, rateUnits))
		}
	}
	if g.Device.Units != p.Device.Units {
		words = append(words, "units="+strconv.Itoa(g.Device.Units))
	}
	if g.Fabric != p.Fabric {
		say(g.Fabric.Kind, g.Fabric.Bandwidth, 0, memoryUnits)
	}
	say(g.NIC.Kind, g.NIC.Bandwidth, 0, networkUnits)
	if g.NICs != 0 && g.NICs != g.Devices {
		words = append(words, "nics="+strconv.Itoa(g.NICs))
	}
	say("host", g.Memory, 0, byteUnits)
	if g.Bus != p.Bus {
		say("bus", g.Bus.Bandwidth, 0, memoryUnits)
	}
	return strings.Join(words, " ")
}
