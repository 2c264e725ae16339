package galley_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// hundredLayers returns a training step of a hundred layers, of which only shapes are known.
func hundredLayers(t testing.TB) *galley.Program {
	t.Helper()
	m, err := models.New(models.Config{
		Family: "llama", Vocab: 32000, Hidden: 8192, Intermediate: 28672, Layers: 100, Heads: 64, KVHeads: 8,
		Positions: 4096,
	}, nn.Config{DType: array.BF16})
	if err != nil {
		t.Fatal(err)
	}
	return trace(t, m, 1024, 4096)
}

// BenchmarkDistribute is inference and partition for 4,096 devices, and the program of one of them.
func BenchmarkDistribute(b *testing.B) {
	p := hundredLayers(b)
	m, err := mesh.Parse("pp=8,dp=16,cp=4,tp=8")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		d := spreadOut(b, p, m, "megatron", "batch*=@[dp,cp]")
		took := time.Since(start)
		if _, err := d.Local(0); err != nil {
			b.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		b.ReportMetric(took.Seconds(), "s/distribute")
		b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/1e6, "MB/allocated")
		b.ReportMetric(float64(len(d.Program().Nodes())), "nodes")
		b.ReportMetric(float64(len(d.Inserted())), "communications")
	}
}

// TestDistributeCost: a hundred layers on 4,096 devices take the memory of one program, and devices share
// theirs. The time is the benchmark's to tell.
func TestDistributeCost(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures a compiler of one goroutine")
	}
	p := hundredLayers(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d := spreadOut(t, p, parseMesh(t, "pp=8,dp=16,cp=4,tp=8"), "megatron", "batch*=@[dp,cp]")
	seen := map[*galley.Program]bool{}
	for _, id := range []int{0, 1, 7, 8, 31, 32, 511, 2048, 4095} {
		local, err := d.Local(id)
		if err != nil {
			t.Fatal(err)
		}
		seen[local] = true
	}
	runtime.ReadMemStats(&after)
	allocated := float64(after.TotalAlloc-before.TotalAlloc) / 1e6
	t.Logf("%d nodes: %.0f MB, %d programs", len(d.Program().Nodes()), allocated, len(seen))
	if allocated > 500 {
		t.Errorf("%.0f MB, want at most 500", allocated)
	}
}

func ExampleDistribute() {
	m, _ := mesh.Parse("dp=2,tp=2")
	types := []galley.Type{{DType: array.F32, Shape: array.Shape{8, 16}},
		{DType: array.F32, Shape: array.Shape{16, 32}}, {DType: array.F32, Shape: array.Shape{32, 16}}}
	p, _ := galley.Trace("mlp", types, func(in []*galley.Tensor) []*galley.Tensor {
		return []*galley.Tensor{op.MatMul(op.Tanh(op.MatMul(in[0], in[1])), in[2])}
	})
	rows, _ := mesh.ParseSharding("@[dp,_]")
	cut, _ := mesh.ParseSharding("@[_,tp]")
	d, err := galley.Distribute(p, galley.DistributeConfig{Mesh: m, Params: map[int]mesh.Sharding{0: rows,
		1: cut}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, w2 := d.Param(2)
	fmt.Println("second weight", w2)
	for _, c := range d.Inserted() {
		fmt.Println(c.Kind, c.Axes, c.Tensor, c.Bytes)
	}
	// Output:
	// second weight @[tp,_]
	// all_reduce tp f32[8,16] 256
}
