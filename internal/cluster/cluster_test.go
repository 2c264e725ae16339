package cluster

import (
	"math"
	"strings"
	"testing"
)

func TestParsePrints(t *testing.T) {
	for _, line := range []string{
		"64x8 H100-SXM-80GB ib=400G",
		"1x8 A100-SXM-80GB",
		"2x4 V100-SXM2-16GB eth=10G nics=1 + 1x4 T4-16GB eth=50G nics=1",
		"16x8 H100-SXM-80GB ib=400G leaf=8 over=7",
		"2x4 Mine mem=16GB bw=1TB/s bf16=100T units=64 pcie=30GB/s eth=1G",
	} {
		c, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.String(); got != line {
			t.Errorf("printed %q, want %q", got, line)
		}
		back, err := ParseYAML(c.YAML())
		if err != nil || !back.Equal(c) {
			t.Errorf("%s: YAML does not read back: %v\n%s", line, err, c.YAML())
		}
	}
}

func TestShortNames(t *testing.T) {
	for short, want := range map[string]string{
		"64x8 H100-SXM ib=400G": "64x8 H100-SXM-80GB ib=400G",
		"4x8 a100":              "4x8 A100-SXM-80GB ib=200G",
		"2 DGX-H100":            "2x8 H100-SXM-80GB ib=400G",
		"8 B200":                "1x8 B200-SXM-180GB",
	} {
		c, err := Parse(short)
		if err != nil {
			t.Error(err)
		} else if c.String() != want {
			t.Errorf("%s: got %s, want %s", short, c, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"8 H1000":              "near it are H100",
		"x8 H100":              "like 64x8",
		"8 H100 ib=fast":       "want a number and one of",
		"8 H100 warp=9":        "no such option",
		"hosts:\n- count: two": "line 2, column 10",
		"hosts:\n- count: 1\n  devices: 8\n  device: H100\n  nic: {kind: ib, bandwidth: 4x}": "line 5, column",
		"hosts:\n- cout: 1": "line 2, column 3",
		"hosts: [":          "line 1",
		"hosts: []":         "no hosts",
		"0x8 H100 ib=400G":  "want 1 to",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want one line with %q", text, err, want)
		}
	}
}

// TestRing holds the vector of planner.md: 1 GiB over 8 devices at 234 GB/s takes 8.03 ms.
func TestRing(t *testing.T) {
	c, err := Parse("1x8 A100-SXM-80GB")
	if err != nil {
		t.Fatal(err)
	}
	c.Groups[0].Fabric = Link{Kind: "nvlink", Bandwidth: 234e9, Efficiency: 1, Latency: 1e-12, Setup: 1e-12}
	s := c.shape(Axis{8, 1})
	if got := s.ring(1<<30, 2); math.Abs(got-8.03e-3) > 0.005e-3 {
		t.Errorf("got %.4f ms, want 8.03", got*1e3)
	}
}

// TestSharing says that a data-parallel group beside seven others gets one card of eight.
func TestSharing(t *testing.T) {
	c, err := Parse("4x8 H100-SXM-80GB ib=400G")
	if err != nil {
		t.Fatal(err)
	}
	alone, shared := c.shape(Axis{32, 1}), c.shape(Axis{4, 8})
	if math.Abs(alone.outer/shared.outer-8) > 1e-9 {
		t.Errorf("a group of all devices sends %g, one of eight %g: want 8 times", alone.outer, shared.outer)
	}
}

// TestTraffic says that counting on the links gives what the closed form of an axis says where all hosts are
// equal.
func TestTraffic(t *testing.T) {
	for _, line := range []string{"4x8 H100-SXM-80GB ib=400G", "8x4 A100-SXM-80GB ib=200G nics=2",
		"16x8 A100-SXM-80GB ib=100G leaf=4 over=4", "1x16 V100-SXM3-32GB"} {
		c, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		for size := 2; size <= c.Size(); size *= 2 {
			for stride := 1; size*stride <= c.Size(); stride *= 2 {
				a := Axis{size, stride}
				on := c.TrafficOn(a.Groups(0, c.Size()))
				for k := AllReduce; k <= SendRecv; k++ {
					for _, bytes := range []float64{1e3, 1e6, 1e9} {
						got, want := on.Cost(k, bytes).Seconds, c.Collective(k, bytes, a).Seconds
						if math.Abs(got-want) > 1e-9*want {
							t.Errorf("%s, %v of %g bytes over %+v: %g on the links, %g by the form", line, k, bytes, a, got, want)
						}
					}
				}
			}
		}
	}
}

// TestMixed says that a group is as slow as its slowest host, and one that stays in a fast host is not.
func TestMixed(t *testing.T) {
	c, err := Parse("1x4 V100-SXM2-16GB eth=10G nics=1 + 1x4 T4-16GB eth=50G nics=1")
	if err != nil {
		t.Fatal(err)
	}
	fast := c.TrafficOn([][]int{{0, 1, 2, 3}}).Cost(AllReduce, 1e8).Seconds
	slow := c.TrafficOn([][]int{{4, 5, 6, 7}}).Cost(AllReduce, 1e8).Seconds
	both := c.TrafficOn([][]int{{0, 1, 2, 3, 4, 5, 6, 7}}).Cost(AllReduce, 1e8).Seconds
	if !(fast < slow && slow < both) {
		t.Errorf("inside V100 %g, inside T4 %g, across %g: want them to grow", fast, slow, both)
	}
	if l := c.Between(0, 4); l.Bandwidth != 1.25e9 {
		t.Errorf("between hosts: got %g bytes a second, want the slower card's 1.25e9", l.Bandwidth)
	}
	c.Wires = []Wire{{From: "h0", To: "h1", Link: Link{Kind: "ib", Bandwidth: 25e9}}}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if wired := c.TrafficOn([][]int{{0, 4}}).Cost(AllReduce, 1e8).Seconds; wired > both/10 {
		t.Errorf("over a wire of 200 Gb/s: %g s, want far less than %g", wired, both)
	}
	if back, err := Parse(c.String()); err != nil || !back.Equal(c) {
		t.Errorf("a cluster with wires does not read back: %v\n%s", err, c)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"64x8 H100-SXM ib=400G", "8 A100 + 2x4 T4 eth=10G",
		"hosts:\n- count: 1\n  devices: 8\n  device: H100", "1x1 X mem=1GB bw=1G bf16=1T"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := Parse(s)
		if err != nil {
			return
		}
		back, err := Parse(c.String())
		if err != nil {
			t.Fatalf("%q printed as %q, which does not parse: %v", s, c, err)
		}
		if !back.Equal(c) {
			t.Fatalf("%q printed as %q, which is another cluster", s, c)
		}
	})
}

// TestMesh says what wires in place of switches leave to a group: NCCL's own times of 64 MiB on two and eight
// of eight V100, and half of a host of four.
func TestMesh(t *testing.T) {
	c, err := Parse("1x8 V100-SXM2-32GB")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]float64{2: 2998.7e-6, 8: 912.2e-6} {
		if got := c.Collective(AllReduce, 64<<20, Axis{n, 1}).Seconds; math.Abs(got/want-1) > 0.25 {
			t.Errorf("%d devices: %.0f µs, measured %.0f", n, 1e6*got, 1e6*want)
		}
	}
	pair, all := Link{Kind: "nvmesh", Bandwidth: 150, Efficiency: 1}.inside(2, 4), Link{Kind: "nvlink",
		Bandwidth: 150, Efficiency: 1}.inside(2, 4)
	if pair != 50 || all != 150 {
		t.Errorf("two of four have %g in a mesh and %g behind a switch, want 50 and 150", pair, all)
	}
}

// TestLocal: this machine has a name in a line, and what such a line gives can be written down.
func TestLocal(t *testing.T) {
	c, err := Parse("8 Local")
	if err != nil || c.Size() != 8 {
		t.Fatalf("%v, %v", c, err)
	}
	if back, err := Parse(c.String()); err != nil || !back.Equal(c) {
		t.Errorf("%s reads as %v, %v", c, back, err)
	}
	for text, want := range map[string]string{"2x4 local": "it is this machine alone", "0 Local": "want 1 to",
		"5000 Local": "want 1 to"} {
		if c, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", text, c, err, want)
		}
	}
}

// TestHostileNames: what a terminal would obey is no name.
func TestHostileNames(t *testing.T) {
	for _, text := range []string{
		"name: \"a\\e[2J\"\nhosts: [{count: 1, devices: 8, device: H100-SXM}]",
		"hosts: [{count: 1, devices: 1, device: \"x\\e[31m\", memory: 80GB, bandwidth: 2TB/s, rates: {bf16: " +
			"300T}}]",
		"hosts: [{count: 2, devices: 8, device: H100-SXM}]\ntiers: [{name: \"x\\u202e\"}]",
	} {
		if c, err := Parse(text); err == nil || strings.ContainsRune(err.Error(), '\x1b') ||
			!strings.Contains(err.Error(), "without control characters") {
			t.Errorf("%q: %v, %v", text, c, err)
		}
	}
	if _, err := Parse("hosts: [{count: 1.9, devices: 8, device: H100-SXM}]"); err == nil ||
		!strings.Contains(err.Error(), "column 17: got 1.9, want a whole number") {
		t.Errorf("count 1.9: %v", err)
	}
}

// TestPresetNames says which device a name stands for, and which stands for none.
func TestPresetNames(t *testing.T) {
	for name, want := range map[string]string{"H100": "H100-SXM-80GB", "NVIDIA H100 80GB HBM3": "H100-SXM-80GB",
		"NVIDIA A100-SXM4-80GB": "A100-SXM-80GB", "Tesla V100-SXM2-32GB": "V100-SXM2-32GB", "H20": "H20-96GB",
		"NVIDIA GeForce RTX 4090": "RTX-4090", "AMD Instinct MI300X": "MI300X", "T4": "T4-16GB", "A10": "A10-24GB",
		"TPU v6e (Trillium)": "TPU-v6e", "Intel Gaudi 3": "Gaudi3", "H2": "", "MI3": "", "NVIDIA": ""} {
		g, err := Preset(name)
		if got := g.Device.Name; got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
		}
	}
	for text, want := range map[string]int{"8xH100": 8, "2x8xH100-SXM ib=400G": 16, "4*A100": 4} {
		if c, err := Parse(text); err != nil || c.Size() != want {
			t.Errorf("%s: got %v, %v; want %d devices", text, c, err, want)
		}
	}
	if _, err := Parse("h100:8"); err == nil || !strings.Contains(err.Error(), "want a count and a device") {
		t.Errorf("h100:8: got %v", err)
	}
}
