package bench

import (
	"math"
	"sync"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/discover"
	"github.com/galley-ml/galley/job"
	"github.com/google/go-cmp/cmp"
)

// TestFit: from the times that a link leads to, the link comes back.
func TestFit(t *testing.T) {
	for _, n := range []int{2, 4, 8} {
		want := cluster.Link{Kind: "process", Bandwidth: 3e9, Latency: 20e-6, Efficiency: 1, Setup: 30e-6}
		hw := &cluster.Cluster{Groups: []cluster.Group{{Hosts: 1, Devices: n, Fabric: want}}}
		measured := []cluster.Measurement{{What: "message", Between: OneHost, Members: 2, Bytes: 64, Seconds: 20e-6,
			Spread: 0.1}}
		for _, k := range []cluster.Kind{cluster.AllGather, cluster.ReduceScatter} {
			for _, bytes := range []float64{4096, 16 << 20} {
				measured = append(
					measured,
					cluster.Measurement{What: k.String(), Between: OneHost, Members: n, Bytes: bytes,
						Seconds: hw.Collective(k, bytes, cluster.Axis{Size: n, Stride: 1}).Seconds, Spread: 0.1},
				)
			}
		}
		got, ok := Fit(measured, OneHost)
		near := func(a, b float64) bool { return math.Abs(a-b) < 0.05*b }
		if !ok || !near(got.Bandwidth, 3e9) || !near(got.Latency, 20e-6) || !near(got.Setup, 30e-6) ||
			got.Spread != 0.1 {
			t.Errorf("%d members: got %+v, want %+v", n, got, want)
		}
		if _, ok := Fit(measured, Hosts); ok {
			t.Error("a link between hosts that nobody measured")
		}
	}
}

// TestDiscovered: hosts of one kind are a group, and the file reads back.
func TestDiscovered(t *testing.T) {
	process := func(host string, rate float64) Process {
		return Process{Host: host, Machine: discover.Info{Memory: 16e9}, Threads: 1, Rate: rate, Stream: 10e9}
	}
	measured := []cluster.Measurement{
		{What: "message", Between: OneHost, Members: 2, Bytes: 64, Seconds: 1e-5},
		{What: "message", Between: Hosts, Members: 2, Bytes: 64, Seconds: 1e-4, Spread: 0.2},
		{What: "message", Between: Hosts, Members: 2, Bytes: 1 << 20, Seconds: 1e-2},
	}
	c := Discovered([]Process{process("a", 50e9), process("a", 55e9), process("b", 51e9), process("b", 50e9),
		process("c", 99e9), process("c", 99e9)}, measured)
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if len(c.Groups) != 2 || c.Groups[0].Hosts != 2 || c.Groups[0].Devices != 2 ||
		c.Groups[0].Device.Memory != 8e9 ||
		c.Groups[0].Fabric.Latency != 1e-5 || c.Groups[1].NIC.Latency != 1e-4 ||
		c.Groups[1].NIC.Kind != "eth" {
		t.Errorf("got %s", c.YAML())
	}
	back, err := cluster.ParseYAML(c.YAML())
	if err != nil || !back.Equal(c) {
		t.Errorf("got %v and %s", err, cmp.Diff(c, back))
	}
	gpu := discover.Info{Memory: 1e12, GPUs: []discover.GPU{
		{
			Name:    "NVIDIA H200",
			Memory:  150e9,
			NVLinks: 18,
			NVLink:  25e9,
		}, {Name: "NVIDIA H200"}}, NICs: []discover.NIC{{Kind: "ib", Up: true, Speed: 400e9}, {Kind: "ib", Up: true,
		Speed: 400e9}, {Kind: "eth", Up: true, Virtual: true, Speed: 10e9}}}
	g := Discovered([]Process{{Host: "a", Machine: gpu}}, nil).Groups[0]
	if g.Device.Name != "H200-SXM-141GB" || g.Devices != 2 || g.Fabric.Bandwidth != 450e9 || g.NICs != 2 ||
		g.NIC.Bandwidth != 50e9 {
		t.Errorf("GPUs: got %+v", g)
	}
}

// TestLinks: all processes of a job come to the same measurements, each of something that takes time.
func TestLinks(t *testing.T) {
	const n = 4
	net := commtest.NewLoopback(n, 0)
	results := make([][]cluster.Measurement, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			j, err := job.Over(net.Transport(i), "a test", "loop-back")
			if err != nil {
				t.Error(err)
				return
			}
			if results[i], err = Links(j); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, m := range results[0] {
		if m.Shared {
			m.What += " shared"
		}
		if seen[m.What] = true; !(m.Seconds > 0) || m.Between != OneHost {
			t.Errorf("got %+v", m)
		}
	}
	for _, what := range []string{"message", "message shared", "all_reduce", "all_gather", "reduce_scatter",
		"all_to_all"} {
		if !seen[what] {
			t.Errorf("no %s", what)
		}
	}
	for i := range results {
		if d := cmp.Diff(results[0], results[i]); d != "" {
			t.Errorf("process %d: %s", i, d)
		}
	}
}
