package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/strategy"
)

// oddRow is a run of an 8B model on eight devices with what a test puts in place of its usual fields, each
// as JSON.
func oddRow(t *testing.T, fields map[string]string) (*runCase, error) {
	t.Helper()
	usual := map[string]string{"model": `"seq_len": 8192`, "cluster": `"gpu": "H100-SXM-80GB", "gpus": 8`,
		"strategy": `"dp": 8, "tp": 1, "pp": 1, "micro_batch": 1, "global_batch": 128`,
		"measured": `"step_time_s": 14.5`, "precision": `"bf16"`, "framework": `"Megatron-Core"`}
	for name, f := range fields {
		usual[name] = f
	}
	text := fmt.Sprintf(`{"id": "x-1", "model": {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336,
		"vocab": 128256, "mlp": "swiglu", %s}, "cluster": {%s}, "strategy": {%s}, "measured": {%s}, "precision": %s,
		"framework": %s}`, usual["model"], usual["cluster"], usual["strategy"], usual["measured"], usual["precision"],
		usual["framework"])
	var r runRow
	if err := r.read([]byte(text)); err != nil {
		return nil, err
	}
	return newRunCase(&r)
}

// TestRunsWords says that what rows say in words is read as what it means.
func TestRunsWords(t *testing.T) {
	const base = `"dp": 8, "tp": 1, "pp": 1, "micro_batch": 1, "global_batch": 128, `
	zero := func(n int) func(*runCase) bool { return func(c *runCase) bool { return c.strategy.Zero == n } }
	again := func(r strategy.Recompute) func(*runCase) bool {
		return func(c *runCase) bool { return c.strategy.Recompute == r && !c.open.recompute }
	}
	degrees := func(dp, tp, pp int) func(*runCase) bool {
		return func(c *runCase) bool { return c.strategy.DP == dp && c.strategy.TP == tp && c.strategy.PP == pp }
	}
	time := func(s float64) func(*runCase) bool { return func(c *runCase) bool { return c.step == s } }
	batch := func(n int) func(*runCase) bool { return func(c *runCase) bool { return c.workload.Batch == n } }
	for _, k := range []struct {
		part, text string
		right      func(*runCase) bool
	}{
		{"strategy", base + `"zero": "FSDP"`, zero(3)},
		{"strategy", base + `"zero": "ZeRO-2"`, zero(2)},
		{"strategy", base + `"sharding": "stage1"`, zero(1)},
		{"strategy", base + `"zero": "none"`, zero(0)},
		{"framework", `"torchtitan"`, zero(3)},
		{"framework", `"DeepSpeed ZeRO-3"`, zero(3)},
		{"strategy", `"dp_shard": 4, "dp_replicate": 2, "tp": 1, "pp": 1, "micro_batch": 1, "global_batch": 128`,
			func(c *runCase) bool { return c.strategy.DP == 8 && c.strategy.Zero == 3 && c.strategy.Shard == 4 }},
		{"strategy", `"tensor_model_parallel_size": 4, "pipeline-model-parallel-size": 2, "data_parallel_size": 1,
			"micro_batch": 1, "global_batch": 128`, degrees(1, 4, 2)},
		{"strategy", `"tp_size": 2, "pp_degree": 2, "DP": 2, "micro_batch": 1, "global_batch": 128`, degrees(2, 2, 2)},
		{"measured", `"elapsed_time_per_iteration_ms": 2500`, time(2.5)},
		{"measured", `"step_time_seconds": 3`, time(3)},
		{"measured", `"time_per_step_s": 4`, time(4)},
		{"strategy", base + `"recompute": true`, again(strategy.Full)},
		{"strategy", base + `"recompute": false`, again("")},
		{"strategy", base + `"recompute": "no"`, again("")},
		{"strategy", base + `"recompute": "full activation recompute"`, again(strategy.Full)},
		{"strategy", base + `"activation_checkpointing": "selective (core_attn)"`, again(strategy.Selective)},
		{"strategy", base + `"recompute": 4`, again(strategy.FullLayers(4))},
		{"strategy", base + `"recompute": "block:4"`, again(strategy.FullLayers(4))},
		{"strategy", base + `"recompute": "every 4 layers"`, again(strategy.FullLayers(8))},
		{"strategy", base + `"recompute": "remat of some"`, func(c *runCase) bool { return c.open.recompute }},
		{"strategy", base + `"cp": 0, "ep": 0, "vpp": 0`, func(c *runCase) bool { return c.strategy.CP == 1 }},
		{"strategy", `"dp": 8, "tp": 0, "pp": 0, "micro_batch": 1, "global_batch_tokens": 1048576`, batch(128)},
		{"strategy", `"dp": 8, "tp": 1, "pp": 1, "micro_batch": 2, "grad_accum": 4`, batch(64)},
		{"strategy", `"dp": 2, "tp": 1, "pp": 1, "cp": 4, "cp_kind": "Ulysses", "micro_batch": 1, "global_batch": 8`,
			func(c *runCase) bool { return c.strategy.Context == "ulysses" }},
		{"model", `"seq_len": 8192, "moe": {"num_experts": 64, "top_k": 6, "moe_ffn": 1408}`,
			func(c *runCase) bool {
				return c.workload.Model.Experts.Count == 64 && c.workload.Model.Experts.TopK == 6
			}},
		{"model", `"seq_len": 8192, "num_experts": 16, "num_experts_per_tok": 2`,
			func(c *runCase) bool {
				return c.workload.Model.Experts.Count == 16 && c.workload.Model.Experts.TopK == 2
			}},
		{"model", `"seq_len": 8192, "sliding_window": 4096`,
			func(c *runCase) bool { return c.workload.Model.Window == 4096 }},
		{"measured", `"step_time": "2500 ms"`, time(2.5)},
		{"measured", `"samples_per_second": 64`, time(2)},
		{"cluster", `"gpu": "NVIDIA H100 80GB HBM3", "nodes": 1`,
			func(c *runCase) bool {
				return c.cluster.Groups[0].Device.Name == "H100-SXM-80GB" && c.cluster.Size() == 8
			}},
		{"cluster", `"gpu": "Nobody's", "gpus": 8, "gpu_mem_gb": 64, "peak_tflops_dense_bf16": 300, "hbm_bw_GBps": 2000,
			"intra_bw_GBps": 200`, func(c *runCase) bool { return c.cluster.Groups[0].Device.Memory == 64e9 }},
	} {
		c, err := oddRow(t, map[string]string{k.part: k.text})
		if err != nil {
			t.Errorf("%s %s: %v", k.part, k.text, err)
		} else if !k.right(c) {
			t.Errorf("%s %s: misread: %s of %s", k.part, k.text, c.strategy, c.workload.Model.Name)
		}
	}
	for _, mfu := range []string{`0.43`, `43`, `"43%"`} {
		c, err := oddRow(t, map[string]string{"measured": `"mfu": ` + mfu})
		if err != nil || c.step < 10 || c.step > 30 {
			t.Errorf("MFU %s: a step of %v, %v", mfu, c, err)
		}
	}
}

// TestRunsUnknown says that what nobody can read is named, and that nothing is taken for another device.
func TestRunsUnknown(t *testing.T) {
	const base = `"dp": 2, "tp": 1, "pp": 4, "micro_batch": 1, "global_batch": 64`
	for _, k := range []struct{ part, text, want string }{
		{"precision", `"fp32 master weights"`, `precision "fp32 master weights" is bf16`},
		{"precision", `"int8"`, `precision "int8" is bf16`},
		{"strategy", base + `, "schedule": "Chimera"`, `schedule "Chimera" is 1f1b`},
		{"strategy", base + `, "recompute": "moe_act"`, `recomputation "moe_act" is what fits`},
	} {
		c, err := oddRow(t, map[string]string{k.part: k.text})
		if err != nil {
			t.Errorf("%s: %v", k.text, err)
		} else if all := strings.Join(c.assumed, ", "); !strings.Contains(all, k.want) {
			t.Errorf("no %q among what was assumed: %s", k.want, all)
		}
	}
	for text, want := range map[string]string{`"gpu": "H2", "gpus": 8`: "unknown hardware",
		`"gpu": "H100-SXM-80GB", "gpus": 7`: "devices are 7"} {
		if _, err := oddRow(t, map[string]string{"cluster": text}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if c, err := oddRow(t, map[string]string{"cluster": `"gpu": "H20", "gpus": 8`}); err != nil ||
		c.cluster.Groups[0].Device.Name != "H20-96GB" {
		t.Errorf("H20: %v, %v", c, err)
	}
}

// TestRunsOneBad says that a row which cannot be read does not take the others with it, and that fields that
// nothing reads are printed.
func TestRunsOneBad(t *testing.T) {
	rows, err := os.ReadFile("testdata/runs.json")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(rows)), "["), "},\n{")
	good := strings.Replace(first+"}", `"sp": `, `"cp_order": "zigzag", "sp": `, 1)
	bad := strings.Replace(first+"}", `"layers": 48`, `"layers": "many"`, 1)
	path := filepath.Join(t.TempDir(), "runs.json")
	if err := os.WriteFile(path, []byte("["+good+",\n"+bad+"]"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if _, err := Compare(&out, path, Config{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 not used: model.layers: got a string, want a number",
		"not read: strategy.cp_order (1 rows)", "1 rows predicted, 1 not used"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestRunsNoted says what speed a note gives a device.
func TestRunsNoted(t *testing.T) {
	for note, want := range map[string]struct {
		speed float64
		whole bool
	}{"400 Gbps RoCEv2 per GPU": {50e9, false}, "100GbE per node": {12.5e9, true}, "4x100Gb RoCE": {50e9, true},
		"measured busbw 54 Gb/s": {}, "DGX-2 NVSwitch": {}} {
		if speed, whole := notedSpeed(note); speed != want.speed || whole != want.whole {
			t.Errorf("%q: got %g, %t; want %g, %t", note, speed, whole, want.speed, want.whole)
		}
	}
}
