package export_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/export"
	"github.com/galley-ml/galley/internal/plan"
)

func write(t *testing.T, system, model, strategy string, batch int) string {
	t.Helper()
	m, err := plan.ModelPreset(model)
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.ParseStrategy(strategy)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Parse("8x8 H100-SXM ib=400G")
	if err != nil {
		t.Fatal(err)
	}
	text, err := export.Write(system, plan.Workload{Model: m, Batch: batch, Seq: 8192}, s, c)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Each system gets every part of a strategy in its own words, and what it has no word for is said.
func TestWrite(t *testing.T) {
	dense := "dp=2 tp=8 pp=4 vpp=5 micro=1 zero=1 sp recompute=full:2"
	uneven := "dp=2 tp=8 pp=4 micro=1 zero=1 sp schedule=zbh1 layers=21,21,20,18"
	experts := "dp=8 tp=2 pp=4 ep=8 micro=1 zero=1 sp"
	fsdp := "dp=32 tp=1 pp=1 cp=2 cp_kind=ulysses micro=1 zero=3 shard=8 offload.optimizer=1"
	for _, x := range []struct {
		system, model, strategy string
		want                    []string
	}{
		{"megatron", "llama-3-70b", dense, []string{"torchrun --nnodes 8 --nproc-per-node 8 pretrain_gpt.py", "--tensor-model-parallel-size 8", "--sequence-parallel",
			"--pipeline-model-parallel-size 4", "--num-layers-per-virtual-pipeline-stage 4", "--use-distributed-optimizer", "--recompute-granularity full", "--recompute-num-layers 2",
			"--num-query-groups 8", "--swiglu", "--global-batch-size 128"}},
		{"megatron", "llama-3-70b", uneven, []string{"--pipeline-model-parallel-layout 'Et*21|t*21|t*20|t*18L'", "# schedule zbh1: Megatron has 1f1b and interleaved"}},
		{"megatron", "mixtral-8x7b", experts, []string{"--expert-model-parallel-size 8", "--num-experts 8", "--moe-router-topk 2"}},
		{"megatron", "llama-3-8b", fsdp, []string{"--use-megatron-fsdp", "optim_grads_params", "--cp-comm-type a2a", "--num-distributed-optimizer-instances 8", "--optimizer-cpu-offload"}},
		{"torchtitan", "llama-3-70b", dense, []string{"name = \"llama3\"", "flavor = \"70B\"", "tensor_parallel_degree = 8", "pipeline_parallel_schedule = \"Interleaved1F1B\"",
			"pipeline_parallel_layers_per_stage = 4", "selective_ac_option = \"2\"", "local_batch_size = 64", "pipeline_parallel_microbatch_size = 1"}},
		{"torchtitan", "llama-3-70b", uneven, []string{"[\"tok_embeddings\", \"layers.0\"", "\"layers.79\", \"norm\", \"output\"]"}},
		{"torchtitan", "llama-3-8b", fsdp, []string{"data_parallel_replicate_degree = 4", "data_parallel_shard_degree = 8", "fsdp_reshard_after_forward = \"always\"", "enable_cpu_offload = true"}},
		{"paddle", "llama-3-70b", dense, []string{"\"tensor_parallel_degree\": 8", "\"virtual_pp_degree\": 5", "\"sharding\": \"stage1\"", "\"gradient_accumulation_steps\": 64", "\"recompute_granularity\": \"full\""}},
		{"paddle", "llama-3-8b", fsdp, []string{"\"sep_parallel_degree\": 2", "\"sharding\": \"stage3 offload\"", "\"sharding_parallel_degree\": 8"}},
		{"deepspeed", "llama-3-8b", fsdp, []string{"\"stage\": 3", "\"mics_shard_size\": 8", "\"offload_optimizer\"", "\"sequence_parallel_size\": 2"}},
		{"deepspeed", "llama-3-70b", uneven, []string{"schedule zbh1: DeepSpeed has 1f1b", "\"stages\": 4"}},
	} {
		text := write(t, x.system, x.model, x.strategy, 128)
		for _, w := range x.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s of %s: %q is not in\n%s", x.system, x.strategy, w, text)
			}
		}
		if (x.system == "paddle" || x.system == "deepspeed") && !json.Valid([]byte(text)) {
			t.Errorf("%s: not JSON:\n%s", x.system, text)
		}
	}
}

func TestUnknownSystem(t *testing.T) {
	_, err := export.Write("nemo", plan.Workload{}, plan.Strategy{}, nil)
	if err == nil || !strings.Contains(err.Error(), "want one of megatron, torchtitan, paddle, deepspeed") {
		t.Error(err)
	}
}
