package runs

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// TestMemoryUnits says what sources' figures count, and in what.
func TestMemoryUnits(t *testing.T) {
	ten := 10.0
	for unit, want := range map[string]struct {
		kind  memoryKind
		bytes float64
	}{
		"GiB":                       {reservedMemory, 10 << 30},
		"":                          {reservedMemory, 10 << 30},
		"GB (reserved)":             {reservedMemory, 1e10},
		"GiB (torch max_allocated)": {allocatedMemory, 10 << 30},
		"GB (nvidia-smi)":           {deviceMemory, 10000 << 20},
		"GB":                        {deviceMemory, 10000 << 20},
	} {
		m := runMeasured{Memory: &ten, Unit: unit}
		if m.kind() != want.kind || m.bytes() != want.bytes {
			t.Errorf("%q: got %d, %g bytes, want %d, %g", unit, m.kind(), m.bytes(), want.kind, want.bytes)
		}
	}
	if b := (&runMeasured{Unit: "GB"}).bytes(); b != 0 {
		t.Errorf("no figure: got %g bytes", b)
	}
}

// fourStages returns a run on two hosts of two devices, whose stages need 1 to 4 GB and keep 100 GB more.
func fourStages(t *testing.T, unit string) *runCase {
	t.Helper()
	c := &runCase{row: &runRow{Measured: runMeasured{Unit: unit}},
		strategy: strategy.Strategy{DP: 1, TP: 1, PP: 4, CP: 1}}
	var err error
	if c.cluster, err = cluster.Parse("2x2 V100-SXM2-16GB eth=10G"); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		m := plan.Memory{Weights: 1e9 * float64(i+1), Context: 2e9, Slack: 3e9, Cache: 100e9}
		c.got.Stages = append(c.got.Stages, plan.Stage{Memory: m})
		c.got.Memory = m
	}
	return c
}

// TestPredictedMemory says that nvidia-smi sees the first host and all that is taken there, and that no
// device takes more than it has.
func TestPredictedMemory(t *testing.T) {
	room := 16 * (1 << 30) * 0.99
	for _, c := range []struct {
		unit        string
		cache, want float64
	}{
		{"GB (nvidia-smi)", 0, 2e9 + 5e9}, {"GB (nvidia-smi)", 1e9, 2e9 + 6e9}, {"GB (nvidia-smi)", 100e9, room},
		{"GiB", 1e9, 4e9 + 4e9}, {"GiB", 100e9, room - 2e9}, {"GiB (allocated)", 100e9, 4e9},
	} {
		run := fourStages(t, c.unit)
		for i := range run.got.Stages {
			run.got.Stages[i].Memory.Cache = c.cache
		}
		if got := run.predictedMemory(); math.Abs(got-c.want) > 1 {
			t.Errorf("%s, cache %g: got %g, want %g", c.unit, c.cache, got, c.want)
		}
	}
}

// TestVerdict says that what an allocator keeps fails no run, that any stage can, and that a run which cannot
// begin has failed.
func TestVerdict(t *testing.T) {
	c := fourStages(t, "GB")
	if !c.fits() {
		t.Error("a run must not fail for what its allocator keeps")
	}
	c.broken = true
	if c.fits() {
		t.Error("a stage without parameters cannot run")
	}
	c.broken = false
	c.got.Stages[3].Memory.Weights = 13e9
	if c.fits() {
		t.Error("the last stage needs 18 GB of 16")
	}
}

func TestReported(t *testing.T) {
	// as nvidia-smi shows them
	for name, mib := range map[string]float64{"V100-SXM2-16GB": 16160, "A100-SXM-80GB": 81251,
		"T4-16GB": 15109} {
		g, err := cluster.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := reported(&g.Device) / (1 << 20); math.Abs(got/mib-1) > 0.01 {
			t.Errorf("%s: got %.0f MiB, want %.0f", name, got, mib)
		}
	}
}

// TestPartition says how borders and frameworks divide layers.
func TestPartition(t *testing.T) {
	for _, c := range []struct {
		framework string
		layers    int
		borders   []int
		want      []int
		broken    bool
	}{
		{"InternEvo v0.2", 10, nil, []int{2, 2, 3, 3}, false},
		{"Megatron-DeepSpeed", 12, nil, nil, false},
		{"Megatron-Bridge", 14, nil, []int{3, 4, 4, 3}, false},
		{"DeepSpeed 3D", 24, []int{0, 9, 15, 21, 30}, []int{7, 6, 6, 5}, false},
		{"DeepSpeed 3D", 24, []int{0, 1, 9, 21, 30}, []int{0, 7, 12, 5}, true},
	} {
		run := &runCase{row: &runRow{Framework: c.framework, Strategy: runStrategy{Partition: c.borders}},
			strategy: strategy.Strategy{PP: 4, VPP: 1}}
		run.workload.Model.Layers = c.layers
		got := run.partition(&run.strategy)
		if !(strategy.Strategy{Layers: got}).Equal(strategy.Strategy{Layers: c.want}) || run.broken != c.broken {
			t.Errorf("%s, %v: got %v, broken %v; want %v, %v", c.framework, c.borders, got, run.broken, c.want,
				c.broken)
		}
	}
}

// TestCompiledLoss says that the date in a source's name reports whether torchtitan compiled the loss.
func TestCompiledLoss(t *testing.T) {
	two := 2
	for _, c := range []struct {
		source, notes string
		tp            *int
		want          int
	}{
		{"benchmarks/llama3_h100_202412_torchtitan.md", "", nil, 14},
		{"benchmarks/llama3_h100_202412_torchtitan.md", "", &two, 18},
		{"benchmarks/llama3-8b_h200_202506.md", "", nil, 0},
		{"benchmarks/llama3-8b_h200_202506.md", "eager", nil, 14},
		{"docs/performance.md", "", nil, 14},
	} {
		r := &runRow{Framework: "torchtitan", Source: c.source, Notes: c.notes, Strategy: runStrategy{TP: c.tp}}
		if got := runSoftware(r).LogitBytes; got != c.want {
			t.Errorf("%s %s: got %d bytes a logit, want %d", c.source, c.notes, got, c.want)
		}
	}
}
