package runs

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// openRow returns a run of Megatron-Bridge whose strategy leaves open what a test names.
func openRow(t *testing.T, gpu, strategy, framework string) *runCase {
	t.Helper()
	text := `{"id": "x-1", "model": {"name": "Llama-3.1-70B", "layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn": 28672, "seq_len": 8192},
		"cluster": ` + gpu + `, "strategy": ` + strategy + `, "measured": {"tflops_per_gpu": 400, "tflops_kind": "model"}, "precision": "bf16", "framework": "` + framework + `"}`
	var r runRow
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	c, err := newRunCase(&r)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.estimate(plan.Published()); err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	sixtyFour = `{"gpu": "H100-SXM-80GB", "gpus": 64, "gpus_per_node": 8, "inter_bw_GBps_per_gpu": 50}`
	racks     = `{"gpu": "GB200-NVL72", "gpus": 256, "gpus_per_node": 72, "inter_bw_GBps_per_gpu": 50}`
)

// TestRunsOpen says what stands in for what a row leaves open, and that it is printed.
func TestRunsOpen(t *testing.T) {
	c := openRow(t, sixtyFour, `{"dp": 2, "tp": 4, "pp": 8, "vpp": 5, "global_batch": 128}`,
		"Megatron-Bridge 26.02 NeMo Container")
	s := c.strategy
	if s.MicroBatch != 1 || !s.Sequence || s.Zero != 1 || c.workload.Model.Vocab != 128256 {
		t.Errorf("got %s with vocabulary %d, want micro 1, sp, zero 1 and 128256", s, c.workload.Model.Vocab)
	}
	all := strings.Join(c.assumed, ", ")
	for _, want := range []string{"micro-batch 1", "sp", "zero 1", "vocabulary of llama-3-70b", "recompute",
		"time from TFLOP/s"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q among what was assumed: %s", want, all)
		}
	}
	w := &c.workload
	if want := w.Model.FlopsPerToken(w.Seq) * w.Tokens() / (400e12 * 64); math.Abs(c.step/want-1) > 1e-9 {
		t.Errorf("a step of %g s, want %g", c.step, want)
	}
}

// TestRunsRelief says that a run is given no more recomputation than makes it fit.
func TestRunsRelief(t *testing.T) {
	least := openRow(t, sixtyFour, `{"dp": 64, "tp": 1, "pp": 1, "micro_batch": 1, "global_batch": 128}`,
		"Megatron-Bridge 26.02").strategy.Recompute
	some := openRow(t, sixtyFour, `{"dp": 2, "tp": 4, "pp": 8, "vpp": 1, "micro_batch": 2, "global_batch": 128}`,
		"Megatron-Bridge 26.02")
	if least.Mode() != strategy.Full || least.Layers() >= 0 { // its states alone are more than a device has
		t.Errorf("got %+v where nothing fits, want all layers", least)
	}
	r := some.strategy.Recompute
	if r.Mode() != strategy.Full || r.Layers() < 1 || r.Layers() > 9 {
		t.Errorf("got %+v, want some of ten layers", r)
	}
	limit := memoryDoubt * some.cluster.Groups[0].Device.Memory
	if got := some.got.Memory.Total(); got > limit {
		t.Errorf("%g bytes, more than %g", got, limit)
	}
	e, err := plan.NewEstimator(some.workload, some.cluster, plan.Published())
	if err != nil {
		t.Fatal(err)
	}
	one := some.strategy
	one.Recompute = strategy.FullLayers(r.Layers() - 1)
	if less, err := e.Estimate(one); err != nil || less.Memory.Total() <= limit {
		t.Errorf("one layer less would do: %g bytes, %v", less.Memory.Total(), err)
	}
}

// TestRunsHosts says that large hosts are filled alike, and that a note may name the network.
func TestRunsHosts(t *testing.T) {
	c := openRow(t, racks, `{"dp": 64, "tp": 1, "pp": 4, "micro_batch": 1, "global_batch": 256}`,
		"Megatron-Bridge 26.02")
	if g := c.cluster.Groups; len(g) != 1 || g[0].Hosts != 4 || g[0].Devices != 64 {
		t.Errorf("got %v, want 4 hosts of 64", g)
	}
	for note, want := range map[string]string{"": "ib", "4x100Gb RoCE per node": "roce", "Omni-Path": "opa",
		"4x AWS G4dn.12xlarge": "eth"} {
		if got := networkKind(note); got != want {
			t.Errorf("%q is %s, want %s", note, got, want)
		}
	}
}

// TestRunsMicro says how torchtitan and MaxText cut a batch where a row does not say, or says it of a chip.
func TestRunsMicro(t *testing.T) {
	chip := 1.0
	for _, k := range []struct {
		framework string
		given     *float64
		want      float64
	}{{"torchtitan (FSDP2)", nil, 4}, {"Megatron-Bridge", nil, 1}, {"MaxText", &chip, 32}, {"torchtitan (FSDP2)",
		&chip, 1}} {
		c := &runCase{row: &runRow{Framework: k.framework, Strategy: runStrategy{Micro: k.given}},
			strategy: strategy.Strategy{DP: 8, PP: 8}}
		if got := c.usualMicro(32); got != k.want {
			t.Errorf("%s: %g, want %g", k.framework, got, k.want)
		}
	}
}

// TestRunsDerived says what is worked out from the rest of a row, and what is not.
func TestRunsDerived(t *testing.T) {
	const bridge = "Megatron-Bridge 26.02"
	c := openRow(t, sixtyFour, `{"tp": 4, "pp": 8, "micro_batch": 1, "global_batch": 129}`, bridge)
	if c.strategy.DP != 2 || c.workload.Batch != 130 {
		t.Errorf("dp %d and batch %d, want 2 and 130", c.strategy.DP, c.workload.Batch)
	}
	two := runRow{Cluster: runCluster{GPUs: number("64")}, Strategy: runStrategy{TP: number("4")}}
	if (&runCase{row: &two}).divides(new(int)) {
		t.Error("two degrees cannot be worked out")
	}
	far := &runCase{row: &two, strategy: strategy.Strategy{DP: 64, MicroBatch: 1}}
	if far.workload.Batch = 96; far.roundBatch() {
		t.Error("a batch of 96 is not nearly one of 64 or 128")
	}
}

// TestRunsSpelling says that fields by other names and numbers in quotes are read as what they mean.
func TestRunsSpelling(t *testing.T) {
	row := func(model, strategy, measured string) *runCase {
		t.Helper()
		path := filepath.Join(t.TempDir(), "runs.json")
		text := `{"data": [{"id": "x-1", "model": ` + model + `, "cluster": {"gpu": "H100-SXM-80GB", "gpus": 8},
			"strategy": ` + strategy + `, "measured": ` + measured + `, "precision": "bf16 + fp32 grad accum"}]}`
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		rows, err := readRuns(path)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		c, err := newRunCase(&rows[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := c.estimate(plan.Published()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	want := row(`{"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 128256,
		"seq_len": 8192, "mlp": "swiglu"}`, `{"dp": 4, "tp": 2, "pp": 1, "micro_batch": 1, "global_batch": 16}`,
		`{"step_time_s": 2.5}`)
	got := row(`{"num_layers": "32", "hidden_size": 4096, "num_attention_heads": 32, "num_query_groups": 8,
		"ffn_hidden_size": "14,336", "vocab_size": 128256, "sequence_length": 8192, "mlp": "swiglu"}`,
		`{"data_parallel": 4, "tensor_parallel": "2", "pp": 1, "mbs": 1, "gbs": 16.0}`, `{"step_time_ms": 2500}`)
	if got.got.Step != want.got.Step || got.step != 2.5 || got.workload.Precision != "bf16" {
		t.Errorf("%g s of %g, %s: want %g of 2.5, bf16", got.got.Step, got.step, got.workload.Precision,
			want.got.Step)
	}
}

// TestRunsChunks says that chunks of a rank which a row leaves open are what its users would choose.
func TestRunsChunks(t *testing.T) {
	const open = `{"dp": 2, "tp": 4, "pp": 8, "micro_batch": 1, "global_batch": 128%s}`
	for _, c := range []struct {
		framework, more, schedule string
		least, most               int
	}{
		{"Megatron-Bridge 26.02", "", "", 2, 10},
		{"in-house", "", "", 2, 10},
		{"Megatron-DeepSpeed", "", "", 1, 1},
		{"Megatron-Bridge 26.02", `, "vpp": 5`, "", 5, 5},
		{"Megatron-Bridge 26.02", `, "schedule": "1F1B"`, "", 1, 1},
		{"HAI-LLM", `, "schedule": "DualPipe"`, "dualpipev", 2, 2},
	} {
		got := openRow(t, sixtyFour, fmt.Sprintf(open, c.more), c.framework).strategy
		if got.VPP < c.least || got.VPP > c.most || got.Schedule != c.schedule {
			t.Errorf("%s%s: %d chunks, schedule %q; want %d to %d, %q", c.framework, c.more, got.VPP, got.Schedule,
				c.least, c.most, c.schedule)
		}
	}
}

// TestRunsEra says which software a row is taken for.
func TestRunsEra(t *testing.T) {
	for _, c := range []struct{ framework, gpu, source, want string }{
		{"Megatron-LM", "A100-SXM-80GB", "", "classic"},
		{"Megatron-LM", "H100-SXM-80GB", "", "modern"},
		{"Megatron-LM 0.14", "A100-SXM-80GB", "", "modern"},
		{"torchtitan (FSDP2)", "H100-SXM-80GB", "", "eager"},
		{"MaxText", "TPU-v5e", "", "compiled"},
		{"in-house", "A100-SXM-80GB", "Somebody et al. (arXiv 2402.01234)", "modern"},
		{"in-house", "A100-SXM-80GB", "Somebody et al. (arXiv 2102.01234)", ""},
	} {
		r := &runRow{Framework: c.framework, Source: c.source, Cluster: runCluster{GPU: c.gpu}}
		if got := era(r); got != c.want {
			t.Errorf("%s on %s, %q: got %q, want %q", c.framework, c.gpu, c.source, got, c.want)
		}
	}
}

// TestRunsPrecision says that a label's products count, not its sums.
func TestRunsPrecision(t *testing.T) {
	for label, want := range map[string]string{"bf16 + fp32 grad accum": "bf16", "amp_bf16": "bf16",
		"FP8-CS":                           "fp8",
		"fp8-linear (fsdp fp8 all-gather)": "fp8", "MXFP8": "mxfp8", "nvfp4": "nvfp4", "fp16": "fp16",
		"fp32":                          "fp32",
		"bfloat16, fp32 master weights": "bf16", "mixed (bf16 compute, fp32 reduce)": "bf16", "float32": "fp32",
		"BF16 (FP8 gradients communication)": "bf16", "": "bf16"} {
		if got, _ := runPrecision(label); got != want {
			t.Errorf("%q: got %s, want %s", label, got, want)
		}
	}
}
