package bench

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/discover"
)

// Process describes a process of a job and its machine.
type Process struct {
	Host    string        `json:"host"`
	Machine discover.Info `json:"machine"`
	// Threads is the number of its threads; Rate is their speed of products, in float32 operations a second, and
	// Stream the bytes a second that it reads and writes while its neighbours do the same.
	Threads int     `json:"threads"`
	Rate    float64 `json:"rate"`
	Stream  float64 `json:"stream"`
}

// Measure measures the speed of a process with its threads.
func (p *Process) Measure() error {
	r, err := Gemm(GemmConfig{N: 768, Threads: p.Threads, Runs: 5, DType: array.F32})
	if err != nil {
		return err
	}
	p.Rate = round(r.GFLOPSMedian * 1e9)
	x, y := array.New(array.F32, 16<<20), array.New(array.F32, 16<<20)
	t, err := measure(1, 5, func() error { copy(y.Bytes(), x.Bytes()); return nil })
	if err != nil {
		return err
	}
	p.Stream = round(2 * 64 * (1 << 20) / (t.MedianMS / 1e3))
	return nil
}

// Discovered returns the cluster that processes run on, with links fitted to the measurements between them. A
// device is a GPU if there are any, else a process with its share of the cores.
func Discovered(processes []Process, measured []cluster.Measurement) *cluster.Cluster {
	c := &cluster.Cluster{Name: "discovered", Measured: measured}
	fabric, isFabric := Fit(measured, OneHost)
	nic, isNIC := Fit(measured, Hosts)
	var hosts [][]Process
	for _, p := range processes {
		i := slices.IndexFunc(hosts, func(h []Process) bool { return h[0].Host == p.Host })
		if i < 0 {
			i, hosts = len(hosts), append(hosts, nil)
		}
		hosts[i] = append(hosts[i], p)
	}
	for _, h := range hosts {
		g := group(h)
		if isFabric && len(h[0].Machine.GPUs) == 0 {
			g.Fabric = fabric
		}
		if isNIC {
			g.NICs, g.NIC = 1, nic
			g.NIC.Kind = network(h[0].Machine)
		}
		if last := len(c.Groups) - 1; last >= 0 && like(c.Groups[last], g) {
			c.Groups[last].Hosts++
			continue
		}
		c.Groups = append(c.Groups, g)
	}
	return c
}

// likeness is the factor by which the measured speeds of hosts of one kind may differ.
const likeness = 1.25

// like reports whether two hosts are of one kind: counts are equal, and measurements nearly so.
func like(a, b cluster.Group) bool {
	near := func(x, y float64) bool { return x <= y*likeness && y <= x*likeness }
	return a.Devices == b.Devices && a.Device.Name == b.Device.Name && near(a.Device.Memory, b.Device.Memory) &&
		near(a.Device.Rates[0].Peak, b.Device.Rates[0].Peak) && near(a.Device.Bandwidth, b.Device.Bandwidth)
}

// group returns one host.
func group(processes []Process) cluster.Group {
	m := processes[0].Machine
	n := len(processes)
	if len(m.GPUs) > 0 {
		if g, ok := gpuGroup(m); ok {
			return g
		}
	}
	slowest, stream := math.Inf(1), math.Inf(1)
	for _, p := range processes {
		slowest, stream = math.Min(slowest, p.Rate), math.Min(stream, p.Stream)
	}
	return cluster.Group{
		Hosts: 1, Devices: n,
		Device: cluster.Device{Name: "cpu-" + runtime.GOARCH, Memory: math.Floor(m.Memory / float64(n)),
			Bandwidth: stream, Rates: []cluster.Rate{{Format: "fp32", Peak: slowest, Measured: slowest}}},
		Fabric: cluster.Link{Kind: "memory", Bandwidth: 5e9},
	}
}

// gpuGroup returns a host with GPUs of a known kind, connected as their driver reports.
func gpuGroup(m discover.Info) (cluster.Group, bool) {
	g, err := cluster.Preset(presetOf(m.GPUs[0]))
	if err != nil {
		return cluster.Group{}, false
	}
	first := m.GPUs[0]
	g.Hosts, g.Devices = 1, len(m.GPUs)
	g.Memory = m.Memory
	if len(m.GPUs) > 1 && first.NVLinks == 0 && first.PCIe > 0 {
		g.Fabric = cluster.Link{Kind: "pcie", Bandwidth: first.PCIe}
	}
	if first.NVLinks > 0 && first.NVLink > 0 {
		g.Fabric = cluster.Link{Kind: "nvlink", Bandwidth: float64(first.NVLinks) * first.NVLink}
	}
	if first.PCIe > 0 {
		g.Bus = cluster.Link{Kind: "pcie", Bandwidth: first.PCIe}
	}
	for _, n := range m.NICs {
		if n.Up && !n.Virtual && n.Speed > 0 && (g.NICs == 0 || n.Speed/8 == g.NIC.Bandwidth) {
			g.NICs++
			g.NIC = cluster.Link{Kind: n.Kind, Bandwidth: n.Speed / 8}
		}
	}
	return g, true
}

// presetOf returns the name of the preset of a GPU: the one with the same model word and the nearest memory
// size.
func presetOf(g discover.GPU) string {
	best, off := "", math.Inf(1)
	for _, name := range cluster.Presets() {
		word, _, _ := strings.Cut(name, "-")
		p, err := cluster.Preset(name)
		if err != nil ||
			!slices.Contains(strings.FieldsFunc(g.Name, func(r rune) bool { return r == ' ' || r == '-' }), word) {
			continue
		}
		d := math.Abs(p.Device.Memory - g.Memory)
		if strings.Contains(g.Name, "PCIe") != strings.Contains(name, "PCIe") {
			d += 1e15
		}
		if d < off {
			best, off = name, d
		}
	}
	return best
}

// network returns the kind of link between hosts.
func network(m discover.Info) string {
	for _, n := range m.NICs {
		if n.Up && n.Kind != "eth" {
			return n.Kind
		}
	}
	return "eth"
}

// Fit returns the link that gives the measured times in the cost model of collectives: latency from the
// shortest message, bandwidth from the longest collectives, and the rest of the shortest collectives as
// setup. Without collectives it is fitted to messages.
func Fit(measured []cluster.Measurement, between string) (l cluster.Link, ok bool) {
	pick := func(what string, shared bool) (list []cluster.Measurement) {
		for _, m := range measured {
			if m.Between == between && (what == "" != (m.What == "message")) && m.Shared == shared {
				list = append(list, m)
			}
		}
		slices.SortStableFunc(list, func(a, b cluster.Measurement) int { return int(a.Bytes - b.Bytes) })
		return list
	}
	messages := pick("message", false)
	if len(messages) == 0 {
		return l, false
	}
	var spreads []float64
	for _, m := range measured {
		if m.Between == between {
			spreads = append(spreads, m.Spread)
		}
	}
	shortest, longest := ends(messages)
	l = cluster.Link{Kind: "process", Efficiency: 1, Latency: median(seconds(shortest)), Spread: median(spreads)}
	collectives := append(pick("", false), pick("", true)...)
	if len(collectives) == 0 {
		l.Bandwidth = round(longest[0].Bytes / median(seconds(longest)))
		return l, true
	}
	short, long := ends(collectives)
	var rates, setups []float64
	for _, m := range short {
		steps, _ := traffic(m)
		setups = append(setups, math.Max(1e-7, m.Seconds-steps*l.Latency))
	}
	l.Setup = round(median(setups))
	for _, m := range long {
		steps, bytes := traffic(m)
		rates = append(rates, bytes/math.Max(m.Seconds-l.Setup-steps*l.Latency, m.Seconds/2))
	}
	l.Bandwidth = round(median(rates))
	return l, true
}

// traffic returns the steps and the bytes of a member's ring in a collective.
func traffic(m cluster.Measurement) (steps, bytes float64) {
	n := float64(m.Members)
	steps, bytes = n-1, (n-1)/n*m.Bytes
	if m.What == cluster.AllReduce.String() {
		steps, bytes = 2*steps, 2*bytes
	}
	return steps, bytes
}

// ends returns the measurements with the fewest and the most bytes of a sorted list.
func ends(list []cluster.Measurement) (least, most []cluster.Measurement) {
	for _, m := range list {
		if m.Bytes == list[0].Bytes {
			least = append(least, m)
		}
		if m.Bytes == list[len(list)-1].Bytes {
			most = append(most, m)
		}
	}
	return least, most
}

func seconds(list []cluster.Measurement) (out []float64) {
	for _, m := range list {
		out = append(out, m.Seconds)
	}
	return out
}

// String prints the process in a line.
func (p Process) String() string {
	return fmt.Sprintf("%s: %d thread(s), %.1f GFLOP/s in f32, memory %.1f GB/s", p.Host, p.Threads, p.Rate/1e9,
		p.Stream/1e9)
}
