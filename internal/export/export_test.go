package export_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/export"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

func write(t *testing.T, system, model, strategy string, batch int) string {
	t.Helper()
	text, err := try(t, system, model, strategy, "", batch)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func try(t *testing.T, system, model, line, precision string, batch int) (string, error) {
	t.Helper()
	m, err := plan.ModelPreset(model)
	if err != nil {
		t.Fatal(err)
	}
	s, err := strategy.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	c := hosts(t, s.Devices())
	return export.Write(system, plan.Workload{Model: m, Batch: batch, Seq: 8192, Precision: precision}, s, c)
}

// hosts returns a cluster of so many devices, eight to a host where that comes out.
func hosts(t *testing.T, devices int) *cluster.Cluster {
	t.Helper()
	line := fmt.Sprintf("1x%d H100-SXM", devices)
	if devices%8 == 0 {
		line = fmt.Sprintf("%dx8 H100-SXM ib=400G", devices/8)
	}
	c, err := cluster.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Each system gets every part of a strategy in its own words, and what it has no word for is said.
func TestWrite(t *testing.T) {
	dense := "dp=2 tp=8 pp=4 vpp=5 micro_batch=1 zero=1 sp recompute=full:2"
	uneven := "dp=2 tp=8 pp=4 micro_batch=1 zero=1 sp schedule=zbh1 layers=21,21,20,18"
	experts := "dp=8 tp=2 pp=4 ep=8 micro_batch=1 zero=1 sp"
	fsdp := "dp=32 tp=1 pp=1 cp=2 cp_kind=ulysses micro_batch=1 zero=3 shard=8 offload.optimizer=1"
	plain := "dp=4 tp=4 pp=4 micro_batch=1 zero=0"
	selective := "dp=32 tp=2 pp=1 micro_batch=2 zero=1 sp recompute=selective"
	relief := "dp=8 tp=1 pp=1 micro_batch=1 zero=1 offload.optimizer=0.5 offload.activations=0.5"
	for _, x := range []struct {
		system, model, strategy string
		want                    []string
	}{
		{"megatron", "llama-3-70b", dense,
			[]string{"CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 8 --nproc-per-node 8 pretrain_gpt.py",
				"--tensor-model-parallel-size 8",
				"--sequence-parallel", "--pipeline-model-parallel-size 4", "--num-layers-per-virtual-pipeline-stage 4",
				"--use-distributed-optimizer",
				"--recompute-granularity full", "--recompute-num-layers 2", "--num-query-groups 8", "--swiglu",
				"--global-batch-size 128", "--hidden-dropout 0"}},
		{"megatron", "llama-3-70b", uneven, []string{"--pipeline-model-parallel-layout 'Et*21|t*21|t*20|t*18L'",
			"# schedule zbh1: Megatron has 1f1b and interleaved"}},
		{"megatron", "mixtral-8x7b", experts, []string{"--expert-model-parallel-size 8", "--num-experts 8",
			"--moe-router-topk 2", "--moe-grouped-gemm"}},
		{"megatron", "mixtral-8x7b", "dp=8 tp=2 pp=4 ep=8 micro_batch=1",
			[]string{"--sequence-parallel", "# tensor without sequence parallelism"}},
		{"megatron", "llama-3-8b", fsdp, []string{"\ntorchrun", "--use-megatron-fsdp", "optim_grads_params",
			"--ckpt-format fsdp_dtensor", "--cp-comm-type a2a",
			"--num-distributed-optimizer-instances 8", "--optimizer-cpu-offload", "--use-precision-aware-optimizer"}},
		{"megatron", "llama-3-8b", relief, []string{"--optimizer-offload-fraction 0.5",
			"--cpu-offloading-num-layers 16", "# activations offloaded by 50%: Megatron takes whole layers"}},
		{"megatron", "deepseek-v3", "dp=64 tp=1 pp=1 ep=64 micro_batch=1 zero=1",
			[]string{"--qk-layernorm", "--moe-layer-freq '([0]*3+[1]*58)'", "--kv-lora-rank 512"}},
		{"torchtitan", "llama-3-70b", dense, []string{"name = \"llama3\"", "flavor = \"70B\"",
			"tensor_parallel_degree = 8", "pipeline_parallel_schedule = \"Interleaved1F1B\"",
			"pipeline_parallel_layers_per_stage = 4", "pipeline_parallel_first_stage_less_layers = 0",
			"pipeline_parallel_last_stage_less_layers = 0",
			"selective_ac_option = \"2\"", "local_batch_size = 64", "pipeline_parallel_microbatch_size = 1"}},
		{"torchtitan", "llama-3-70b", uneven, []string{"[\"tok_embeddings\", \"layers.0\"",
			"\"layers.79\", \"norm\", \"output\"]", "pipeline_parallel_schedule = \"1F1B\"", "# schedule zbh1"}},
		{"torchtitan", "llama-3-8b", fsdp, []string{"data_parallel_replicate_degree = 8",
			"data_parallel_shard_degree = 4", "fsdp_reshard_after_forward = \"always\"",
			"enable_cpu_offload = true", "and parameters and gradients", "# context parallelism by ulysses"}},
		{"torchtitan", "llama-3-8b", plain,
			[]string{"data_parallel_replicate_degree = 1\ndata_parallel_shard_degree = 4",
				"# zero 0: torchtitan replicates only where"}},
		{"torchtitan", "llama-3-8b", selective, []string{"mode = \"none\"", "# recompute selective"}},
		{"torchtitan", "llama-3.2-1b", selective, []string{"# model llama-3.2-1b: torchtitan has no flavor"}},
		{"torchtitan", "qwen3-30b-a3b", selective, []string{"flavor = \"30B-A3B\""}},
		{"paddle", "llama-3-70b", dense, []string{"run_pretrain.py pretrain_argument.json",
			"--tensor_parallel_degree 8", "--virtual_pp_degree 5", "--sharding stage1",
			"--gradient_accumulation_steps 64", "--recompute_granularity full", "--fp16_opt_level O2",
			"# recompute 2 layers of each chunk: PaddleNLP recomputes all"}},
		{"paddle", "llama-3-8b", fsdp, []string{"--sep_parallel_degree 2", "--sharding stage3",
			"--sharding_parallel_degree 4", "--offload_optim true", "# state over 8 ranks"}},
		{"paddle", "llama-3-8b", "dp=64 tp=1 pp=1 micro_batch=1 zero=1 recompute=full:30",
			[]string{"--no_recompute_layers 30 31"}},
		{"paddle", "llama-3-8b", plain, []string{"--sharding \"\" \\\n  --sharding_parallel_degree 1"}},
		{"deepspeed", "llama-3-8b", fsdp, []string{"\"stage\": 3", "\"mics_shard_size\": 8",
			"\"offload_optimizer\"", "\"sequence_parallel_size\": 2", "\"data_parallel_size\": 32"}},
		{"deepspeed", "llama-3-70b", uneven, []string{"schedule zbh1: DeepSpeed has 1f1b",
			"PipelineModule(num_stages=4)"}},
		{"deepspeed", "llama-3-8b", relief, []string{"offloads all of it at stage 1",
			"activations offloaded by 50%: left out"}},
		{"deepspeed", "llama-3-8b", selective, []string{"\"autotp_size\": 2", "AutoTP has none",
			"attention's core"}},
		{"deepspeed", "llama-3-70b", "dp=2 tp=8 pp=4 micro_batch=1 zero=1 recompute=full",
			[]string{"\"activation_checkpoint_interval\": 1"}},
	} {
		text := write(t, x.system, x.model, x.strategy, 128)
		for _, w := range x.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s of %s: %q is not in\n%s", x.system, x.strategy, w, text)
			}
		}
		if x.system == "deepspeed" && !json.Valid([]byte(text)) {
			t.Errorf("%s: not JSON:\n%s", x.system, text)
		}
	}
}

// A strategy that a system would refuse is an error that names what and the nearest that it takes.
func TestRefuses(t *testing.T) {
	for _, x := range []struct {
		system, model, strategy, precision string
		batch                              int
		want                               string
	}{
		{"megatron", "qwen3-30b-a3b", "dp=8 tp=8 pp=1 ep=8 micro_batch=1 sp", "", 128,
			"tp 8: Megatron wants a divisor of the 4 heads of keys"},
		{"megatron", "mixtral-8x7b", "dp=8 tp=2 pp=1 ep=4 micro_batch=1 sp", "fp16", 128, "fp16 with ep 4"},
		{"megatron", "llama-3-70b", "dp=2 tp=8 pp=4 vpp=2 micro_batch=1 sp", "", 6,
			"3 micro-batches with 2 chunks a rank: Megatron wants at least pp 4: pin vpp=1"},
		{"megatron", "mixtral-8x7b", "dp=16 tp=1 pp=1 ep=8 micro_batch=1 zero=1 shard=4", "", 128, "pin shard=0"},
		{"torchtitan", "mixtral-8x7b", "dp=8 tp=4 pp=1 ep=2 micro_batch=1 zero=1 sp", "", 128,
			"ep 2: torchtitan wants a multiple of 4 that divides 32"},
		{"torchtitan", "mixtral-8x7b", "dp=8 tp=4 pp=1 ep=8 etp=2 micro_batch=1 zero=1 sp", "", 128,
			"etp 2 with tp 4"},
		{"torchtitan", "llama-3-70b", "dp=2 tp=8 pp=4 vpp=2 micro_batch=1 sp schedule=dualpipev", "", 12,
			"pin schedule=zbv"},
		{"torchtitan", "llama-3-70b", "dp=2 tp=8 pp=4 vpp=2 micro_batch=1 sp", "", 18, "9 micro-batches"},
		{"paddle", "llama-3-70b", "dp=2 tp=8 pp=2 vpp=2 micro_batch=1 sp", "", 128, "Paddle interleaves from pp 3"},
		{"paddle", "llama-3-70b", "dp=2 tp=8 pp=4 vpp=2 micro_batch=1 sp", "", 20, "a multiple of pp 4: pin vpp=1"},
		{"paddle", "llama-3-70b", "dp=2 tp=8 pp=4 vpp=3 micro_batch=1 sp", "", 128, "80 layers with vpp 3"},
		{"paddle", "llama-3-70b", "dp=2 tp=1 pp=1 cp=3 cp_kind=ulysses micro_batch=1", "", 128,
			"a divisor of 64 heads"},
		{"deepspeed", "llama-3-70b", "dp=2 tp=1 pp=4 cp=2 micro_batch=1", "", 128, "cp 2 with a pipeline"},
		{"deepspeed", "llama-3-70b", "dp=2 tp=1 pp=1 cp=3 cp_kind=ulysses micro_batch=1", "", 128,
			"a divisor of 64 heads"},
	} {
		_, err := try(t, x.system, x.model, x.strategy, x.precision, x.batch)
		if err == nil || !strings.Contains(err.Error(), x.want) ||
			!strings.HasPrefix(err.Error(), "export: "+x.system+" cannot run ") {
			t.Errorf("%s of %s: got %v, want %q", x.system, x.strategy, err, x.want)
		}
	}
}

// A V puts other chunks on a rank than a loop: on hosts that differ that is another plan.
func TestMixedHosts(t *testing.T) {
	m, _ := plan.ModelPreset("llama-2-7b")
	s, _ := strategy.Parse("dp=4 tp=1 pp=2 vpp=2 micro_batch=1 schedule=zbv layers=12,4,4,12")
	c, err := cluster.Parse("1x4 A100 ib=200G + 1x4 V100-SXM2-32GB ib=100G")
	if err != nil {
		t.Fatal(err)
	}
	w := plan.Workload{Model: m, Batch: 64, Seq: 4096}
	if _, err := export.Write("megatron", w, s, c); err == nil ||
		!strings.Contains(err.Error(), "pin schedule=interleaved") {
		t.Error(err)
	}
	if text, err := export.Write("torchtitan", w, s, c); err != nil ||
		!strings.Contains(text, "# hosts differ") {
		t.Error(text, err)
	}
}

// Interleaving takes groups of micro-batches that Megatron allows, and says so only where they are not its
// own.
func TestMegatronGroups(t *testing.T) {
	for batch, want := range map[int]string{16: "", 20: "--microbatch-group-size-per-virtual-pipeline-stage 5",
		22: "--microbatch-group-size-per-virtual-pipeline-stage 6", 24: ""} {
		text := write(t, "megatron", "llama-3-70b", "dp=2 tp=8 pp=4 vpp=2 micro_batch=1 sp", batch)
		if has := strings.Contains(text, "microbatch-group"); has != (want != "") || !strings.Contains(text, want) {
			t.Errorf("batch %d: want %q in\n%s", batch, want, text)
		}
	}
}

// Every precision is a flag, or is said.
func TestPrecisions(t *testing.T) {
	for precision, want := range map[string][4]string{
		"bf16":  {"--bf16", `"bfloat16"`, "--bf16 true", `"bf16": {`},
		"fp16":  {"--fp16", "# precision fp16", "--fp16 true", `"fp16": {`},
		"fp32":  {"--overlap-grad-reduce", `"float32"`, "--bf16 false", `"enabled": false`},
		"tf32":  {"# precision tf32", "# precision tf32", "# precision tf32", "precision tf32"},
		"fp8":   {"--fp8-format hybrid", "# precision fp8", "# precision fp8", "precision fp8"},
		"mxfp8": {"--fp8-recipe mxfp8", "# precision mxfp8", "# precision mxfp8", "precision mxfp8"},
		"nvfp4": {"--fp4-format e2m1", "# precision nvfp4", "# precision nvfp4", "precision nvfp4"},
	} {
		for i, system := range export.Systems() {
			text, err := try(t, system, "llama-3-8b", "dp=64 tp=1 pp=1 micro_batch=1 zero=1", precision, 128)
			if err != nil || !strings.Contains(text, want[i]) {
				t.Errorf("%s of %s: %v, want %q in\n%s", system, precision, err, want[i], text)
			}
		}
	}
}

// Launchers would take idle devices for more replicas.
func TestOtherCluster(t *testing.T) {
	m, _ := plan.ModelPreset("llama-3-8b")
	_, err := export.Write("megatron", plan.Workload{Model: m, Batch: 64, Seq: 8192},
		strategy.Strategy{DP: 8, MicroBatch: 1}, hosts(t, 16))
	if err == nil || !strings.Contains(err.Error(), "takes 8 devices, the cluster") {
		t.Error(err)
	}
}

func TestUnknownSystem(t *testing.T) {
	_, err := export.Write("nemo", plan.Workload{}, strategy.Strategy{}, nil)
	if err == nil || !strings.Contains(err.Error(), "want one of megatron, torchtitan, paddle, deepspeed") {
		t.Error(err)
	}
}
