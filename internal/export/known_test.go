package export_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/export"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// known is the names that each system takes, as far as exports have use for them: facts of its sources at the
// commits below. A name that is not here is a mistake, or is to be looked up there first.
var known = map[string]string{
	// NVIDIA/Megatron-LM 000c4ac24f61159c138b0975def722c65245983c, megatron/training/arguments.py
	"megatron": `num-layers hidden-size ffn-hidden-size num-attention-heads kv-channels group-query-attention num-query-groups window-size
		max-position-embeddings position-embedding-type normalization swiglu untie-embeddings-and-output-weights multi-latent-attention qk-layernorm
		attention-dropout hidden-dropout disable-bias-linear add-qkv-bias seq-length micro-batch-size global-batch-size
		recompute-granularity recompute-method recompute-num-layers recompute-modules cpu-offloading-num-layers
		optimizer-cpu-offload optimizer-offload-fraction use-precision-aware-optimizer sequence-parallel ckpt-format fp16 bf16 fp8-format fp8-recipe fp4-format
		tensor-model-parallel-size pipeline-model-parallel-size pipeline-model-parallel-layout num-layers-per-virtual-pipeline-stage
		microbatch-group-size-per-virtual-pipeline-stage context-parallel-size cp-comm-type overlap-grad-reduce overlap-param-gather
		use-distributed-optimizer use-megatron-fsdp data-parallel-sharding-strategy num-distributed-optimizer-instances
		num-experts moe-layer-freq moe-ffn-hidden-size moe-shared-expert-intermediate-size moe-router-topk moe-grouped-gemm moe-token-dispatcher-type
		expert-model-parallel-size expert-tensor-parallel-size q-lora-rank kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim`,
	// pytorch/torchtitan 6404b932421f5ce382e7dac5ad381b2c17b1373c, torchtitan/config/job_config.py;
	// expert_tensor_parallel_degree and pipeline_parallel_expert_parallel_overlap are of a later one, from
	// before TOML went, whose commit is not known
	"torchtitan": `model.name model.flavor training.seq_len training.local_batch_size training.global_batch_size training.enable_cpu_offload
		training.mixed_precision_param parallelism.data_parallel_replicate_degree parallelism.data_parallel_shard_degree
		parallelism.fsdp_reshard_after_forward parallelism.tensor_parallel_degree parallelism.context_parallel_degree
		parallelism.context_parallel_rotate_method parallelism.pipeline_parallel_degree parallelism.pipeline_parallel_schedule
		parallelism.pipeline_parallel_microbatch_size parallelism.pipeline_parallel_layers_per_stage
		parallelism.pipeline_parallel_first_stage_less_layers parallelism.pipeline_parallel_last_stage_less_layers
		parallelism.module_fqns_per_model_part parallelism.pipeline_parallel_expert_parallel_overlap
		parallelism.expert_parallel_degree parallelism.expert_tensor_parallel_degree activation_checkpoint.mode activation_checkpoint.selective_ac_option`,
	// PaddlePaddle/PaddleNLP 5ee2e807e8bf37c70b0c8521d3c33739bf621a48, llm/run_pretrain.py, and
	// paddlenlp/trainer/training_args.py of early 2025, whose commit is not known; expert_parallel_degree is of
	// 00b572eca997a75cedd90196dfcc062b80196dd4, llm/config/deepseek-v3/pretrain_argument.json
	"paddle": `max_seq_length per_device_train_batch_size gradient_accumulation_steps tensor_parallel_degree sequence_parallel
		sep_parallel_degree context_parallel_degree pipeline_parallel_degree virtual_pp_degree sharding sharding_parallel_degree offload_optim
		recompute recompute_granularity no_recompute_layers expert_parallel_degree use_flash_attention bf16 fp16 fp16_opt_level amp_master_grad`,
	// deepspeedai/DeepSpeed 029f12b3c6b94750ff9d93c5d7e6e98b603cf78e, deepspeed/runtime/config.py, and
	// zero/config.py of 1b88ac366fc922254d56abda5cf6b1f266556d19; names below zero_optimization and
	// tensor_parallel must be known to it
	"deepspeed": `train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps zero_optimization.stage zero_optimization.overlap_comm
		zero_optimization.contiguous_gradients zero_optimization.mics_shard_size zero_optimization.offload_optimizer.device
		zero_optimization.offload_optimizer.pin_memory zero_optimization.offload_optimizer.ratio bf16.enabled fp16.enabled
		tensor_parallel.autotp_size sequence_parallel_size data_parallel_size pipeline.activation_checkpoint_interval
		activation_checkpointing.partition_activations activation_checkpointing.cpu_checkpointing activation_checkpointing.number_checkpoints _notes`,
}

// choices are the values of what takes one of a few.
var choices = map[string]string{
	"position-embedding-type": "rope learned_absolute", "normalization": "LayerNorm RMSNorm",
	"recompute-granularity": "full selective",
	"recompute-method":      "uniform block", "recompute-modules": "core_attn",
	"cp-comm-type": "p2p all_gather a2a",
	"ckpt-format":  "torch_dist fsdp_dtensor",
	"fp8-format":   "e4m3 hybrid", "fp8-recipe": "delayed mxfp8", "fp4-format": "e2m1",
	"moe-token-dispatcher-type":                  "allgather alltoall flex",
	"data-parallel-sharding-strategy":            "no_shard optim optim_grads optim_grads_params",
	"training.mixed_precision_param":             `"bfloat16" "float32"`,
	"parallelism.fsdp_reshard_after_forward":     `"default" "always" "never"`,
	"parallelism.context_parallel_rotate_method": `"allgather" "alltoall"`,
	"parallelism.pipeline_parallel_schedule":     `"1F1B" "Interleaved1F1B" "GPipe" "ZBVZeroBubble" "DualPipeV" "InterleavedZeroBubble"`,
	"activation_checkpoint.mode":                 `"selective" "full" "memory_budget" "none"`,
	"sharding":                                   `"" stage1 stage2 stage3`,
	"recompute_granularity":                      "full core_attn full_attn", "fp16_opt_level": "O1 O2",
}

var flag = regexp.MustCompile(`(?m)^  --(\S+)(?: (.*?))?(?: \\)?$`)

// words returns the names in an export with their values.
func words(t *testing.T, system, text string) map[string]string {
	t.Helper()
	found := map[string]string{}
	switch system {
	case "megatron", "paddle":
		for _, m := range flag.FindAllStringSubmatch(text, -1) {
			found[m[1]] = m[2]
		}
	case "torchtitan":
		section := ""
		for line := range strings.Lines(text) {
			key, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
			switch {
			case strings.HasPrefix(line, "#"):
			case strings.HasPrefix(line, "["):
				section = strings.Trim(strings.TrimSpace(line), "[]") + "."
			case ok:
				found[section+key] = value
			}
		}
	case "deepspeed":
		var c map[string]any
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		flatten("", c, found)
	}
	return found
}

func flatten(prefix string, c map[string]any, found map[string]string) {
	for k, v := range c {
		if m, ok := v.(map[string]any); ok {
			flatten(prefix+k+".", m, found)
			continue
		}
		found[prefix+k] = fmt.Sprint(v)
	}
}

// writeSpread returns the export of one of spread, or what stands against it.
func writeSpread(t *testing.T, system string, i int) (string, error) {
	t.Helper()
	x := spread[i]
	name, window, _ := strings.Cut(x.model, " window=")
	m, err := plan.ModelPreset(name)
	if err != nil {
		t.Fatal(err)
	}
	m.Window, _ = strconv.Atoi(window)
	s, err := strategy.Parse(x.strategy)
	if err != nil {
		t.Fatal(err)
	}
	return export.Write(system, plan.Workload{Model: m, Batch: x.batch, Seq: x.seq, Precision: x.precision}, s,
		hosts(t, s.Devices()))
}

// Every name that is written is one of the system's, and the spread of plans writes all of them.
func TestKnownNames(t *testing.T) {
	for _, system := range export.Systems() {
		names := map[string]bool{}
		for _, n := range strings.Fields(known[system]) {
			names[n] = false
		}
		for i := range spread {
			text, err := writeSpread(t, system, i)
			if err != nil {
				continue
			}
			for name, value := range words(t, system, text) {
				if _, ok := names[name]; !ok {
					t.Errorf("%s of %s: %s is no name of it", system, spread[i].strategy, name)
				}
				names[name] = true
				if of, ok := choices[name]; ok && !slices.Contains(strings.Fields(of), value) {
					t.Errorf("%s of %s: %s is %s, want one of %s", system, spread[i].strategy, name, value, of)
				}
			}
		}
		for _, n := range slices.Sorted(maps.Keys(names)) {
			if !names[n] {
				t.Errorf("%s: no plan of the spread writes %s", system, n)
			}
		}
	}
}
