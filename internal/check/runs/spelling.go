package runs

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// spellings are other names of a row's fields, by the part of the row that they are in.
var spellings = map[string]map[string]string{
	"model": {
		"num_layers": "layers", "n_layers": "layers", "num_hidden_layers": "layers", "hidden_size": "hidden",
		"d_model": "hidden", "num_heads": "heads", "n_heads": "heads", "num_attention_heads": "heads",
		"num_kv_heads": "kv_heads", "n_kv_heads": "kv_heads", "num_key_value_heads": "kv_heads",
		"num_query_groups": "kv_heads", "intermediate_size": "ffn", "ffn_hidden_size": "ffn", "d_ff": "ffn",
		"vocab_size": "vocab", "seq": "seq_len", "seqlen": "seq_len", "sequence_length": "seq_len",
		"seq_length": "seq_len", "context_length": "seq_len", "activation": "mlp", "hidden_act": "mlp",
		"window": "sliding_window", "attention_window": "sliding_window", "attention_type": "attention",
		"tie_word_embeddings": "tied", "tied_embeddings": "tied", "params": "n_params", "experts": "moe",
		"num_experts": "moe",
	},
	"moe": {
		"num_experts": "experts", "n_experts": "experts", "n_routed_experts": "experts",
		"num_local_experts": "experts", "top_k": "topk", "num_experts_per_tok": "topk", "experts_per_token": "topk",
		"active_experts": "topk", "expert_ffn": "moe_ffn", "moe_intermediate_size": "moe_ffn", "ffn": "moe_ffn",
		"n_shared_experts": "shared_experts", "num_shared_experts": "shared_experts",
		"first_k_dense_replace": "dense_layers", "first_dense_layers": "dense_layers",
	},
	"cluster": {
		"device": "gpu", "accelerator": "gpu", "gpu_type": "gpu", "num_gpus": "gpus", "n_gpus": "gpus",
		"devices": "gpus", "chips": "gpus", "world_size": "gpus", "gpus_per_host": "gpus_per_node",
		"devices_per_host": "gpus_per_node", "devices_per_node": "gpus_per_node", "num_nodes": "nodes",
		"n_nodes": "nodes", "hosts": "nodes", "network": "note", "interconnect": "note",
	},
	"strategy": {
		"data_parallel": "dp", "tensor_parallel": "tp", "pipeline_parallel": "pp", "context_parallel": "cp",
		"expert_parallel": "ep", "virtual_pipeline": "vpp", "virtual_stages": "vpp", "interleave": "vpp",
		"zero_stage": "zero", "mbs": "micro_batch", "micro_batch_size": "micro_batch", "gbs": "global_batch",
		"global_batch_size": "global_batch", "batch": "global_batch", "sequence_parallel": "sp",
		"activation_checkpointing": "recompute", "checkpointing": "recompute",
		"activation_recompute": "recompute", "recompute_granularity": "recompute", "remat": "recompute",
		"num_microbatches_per_step": "grad_accum", "gradient_accumulation": "grad_accum",
		"gradient_accumulation_steps": "grad_accum", "fsdp": "dp_shard", "data_parallel_shard_degree": "dp_shard",
		"data_parallel_replicate_degree": "dp_replicate", "batch_tokens": "global_batch_tokens",
		"tokens_per_batch": "global_batch_tokens", "context_parallel_kind": "cp_kind", "sharding": "zero",
		"sharding_stage": "zero", "pipeline_schedule": "schedule",
	},
	"measured": {
		"step_time": "step_time_s", "iteration_time_s": "step_time_s", "seconds_per_step": "step_time_s",
		"tokens_per_second": "tokens_per_s", "tokens_per_sec": "tokens_per_s",
		"tokens_per_second_per_gpu": "tokens_per_s_per_gpu", "tokens_per_sec_per_gpu": "tokens_per_s_per_gpu",
		"tflops": "tflops_per_gpu", "samples_per_second": "samples_per_s", "samples_per_sec": "samples_per_s",
		"sequences_per_second": "samples_per_s", "sequences_per_s": "samples_per_s",
		"step_time_seconds": "step_time_s", "time_per_step_s": "step_time_s", "time_per_iteration_s": "step_time_s",
		"elapsed_time_per_iteration_s": "step_time_s", "tflops_per_device": "tflops_per_gpu",
		"model_tflops_per_gpu": "tflops_per_gpu", "tflops_s_gpu": "tflops_per_gpu",
		"tokens_per_gpu_per_s": "tokens_per_s_per_gpu", "tokens_s_gpu": "tokens_per_s_per_gpu",
	},
}

// milliseconds are names of times that become seconds.
var milliseconds = map[string]string{"step_time_ms": "step_time_s", "iteration_time_ms": "step_time_s",
	"time_per_step_ms": "step_time_s", "elapsed_time_per_iteration_ms": "step_time_s"}

// words are fields that hold words, which are never read as numbers.
var words = []string{"id", "name", "gpu", "note", "notes", "source", "framework", "precision", "schedule",
	"recompute", "mlp", "tflops_kind", "peak_mem_unit", "attention", "zero1_group", "fsdp_mixed_precision",
	"cp_kind",
	"instance"}

// respell renames a row's fields to the names used here, and converts numbers in quotes. A name that is used
// already is not overwritten.
func respell(row map[string]any) {
	respellPart(row, "")
	for part := range spellings {
		respellPart(object(row, part), part)
	}
	respellPart(object(object(row, "model"), "moe"), "moe")
}

// object returns a field that is an object; nil where it is none.
func object(fields map[string]any, name string) map[string]any {
	m, _ := fields[name].(map[string]any)
	return m
}

func respellPart(fields map[string]any, part string) {
	names := slices.Sorted(maps.Keys(fields)) // of several names for one field the first counts, in every run
	for _, name := range names {
		x := plainNumber(name, fields[name])
		to, scale := nameOf(part, name), 1.0
		if ms, ok := milliseconds[name]; ok && part == "measured" {
			to, scale = ms, 1e-3
		}
		if n, isNumber := x.(float64); isNumber && scale != 1 {
			x = n * scale
		}
		if to == "" || fields[to] != nil {
			fields[name] = x
			continue
		}
		delete(fields, name)
		fields[to] = x
	}
}

// nameOf returns the name used here for a field, empty if it is unknown: unchanged, or as in launchers'
// flags, tensor-model-parallel-size or pp_degree.
func nameOf(part, name string) string {
	if to := spellings[part][name]; to != "" {
		return to
	}
	plain := strings.NewReplacer("-", "_", " ", "_", "/", "_").Replace(strings.ToLower(name))
	plain = strings.Replace(plain, "_model_parallel", "_parallel", 1)
	for _, end := range []string{"", "_size", "_degree"} {
		word := strings.TrimSuffix(plain, end)
		if to := spellings[part][word]; to != "" {
			return to
		}
		for _, to := range spellings[part] {
			if to == word && word != name {
				return to
			}
		}
	}
	return ""
}

// plainNumber returns a number that was written in quotes, or the value unchanged.
func plainNumber(name string, x any) any {
	s, ok := x.(string)
	if !ok {
		return x
	}
	for _, w := range words {
		if name == w || spellings["strategy"][name] == w || spellings["cluster"][name] == w ||
			spellings["model"][name] == w {
			return x
		}
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(s), ",", ""), 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return x
	}
	return n
}
