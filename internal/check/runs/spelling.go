package runs

import (
	"encoding/json"
	"math"
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
		"seq_length": "seq_len", "activation": "mlp",
	},
	"cluster": {
		"device": "gpu", "accelerator": "gpu", "gpu_type": "gpu", "num_gpus": "gpus", "n_gpus": "gpus",
		"devices": "gpus", "chips": "gpus", "gpus_per_host": "gpus_per_node", "devices_per_host": "gpus_per_node",
	},
	"strategy": {
		"data_parallel": "dp", "tensor_parallel": "tp", "pipeline_parallel": "pp", "context_parallel": "cp",
		"expert_parallel": "ep", "virtual_pipeline": "vpp", "virtual_stages": "vpp", "interleave": "vpp",
		"zero_stage": "zero", "mbs": "micro_batch", "micro_batch_size": "micro_batch", "gbs": "global_batch",
		"global_batch_size": "global_batch", "batch": "global_batch", "sequence_parallel": "sp",
		"activation_checkpointing": "recompute", "checkpointing": "recompute",
	},
	"measured": {
		"step_time": "step_time_s", "iteration_time_s": "step_time_s", "seconds_per_step": "step_time_s",
		"tokens_per_second": "tokens_per_s", "tokens_per_sec": "tokens_per_s",
		"tokens_per_second_per_gpu": "tokens_per_s_per_gpu", "tokens_per_sec_per_gpu": "tokens_per_s_per_gpu",
		"tflops": "tflops_per_gpu",
	},
}

// milliseconds are names of times that become seconds.
var milliseconds = map[string]string{"step_time_ms": "step_time_s", "iteration_time_ms": "step_time_s"}

// words are fields that hold words, which are never read as numbers.
var words = []string{"id", "name", "gpu", "note", "notes", "source", "framework", "precision", "schedule",
	"recompute", "mlp", "tflops_kind", "peak_mem_unit", "attention", "zero1_group", "fsdp_mixed_precision"}

// respelled returns a file with its rows' fields as they are called here, numbers in quotes as numbers and
// whole ones without a fraction; ok is false where nothing had to be changed.
func respelled(text []byte) (out []byte, ok bool) {
	var file any
	if json.Unmarshal(text, &file) != nil {
		return nil, false
	}
	changed := false
	for _, row := range rowsOf(file) {
		changed = respell(row, "") || changed
		for part := range spellings {
			if fields, isPart := row[part].(map[string]any); isPart {
				changed = respell(fields, part) || changed
			}
		}
	}
	if !changed {
		return nil, false
	}
	out, err := json.Marshal(file)
	return out, err == nil
}

// rowsOf returns the rows of a file: a list, or what an object has under runs, rows or data.
func rowsOf(file any) (rows []map[string]any) {
	if m, ok := file.(map[string]any); ok {
		for _, key := range []string{"runs", "rows", "data"} {
			rows = append(rows, rowsOf(m[key])...)
		}
		return rows
	}
	list, _ := file.([]any)
	for _, r := range list {
		if m, ok := r.(map[string]any); ok {
			rows = append(rows, m)
		}
	}
	return rows
}

// respell changes one part of a row. A name that is used here already is not written over.
func respell(fields map[string]any, part string) (changed bool) {
	for name, x := range fields {
		to, scale := spellings[part][name], 1.0
		if ms, ok := milliseconds[name]; ok && part == "measured" {
			to, scale = ms, 1e-3
		}
		y := plainNumber(name, x)
		if n, isNumber := y.(float64); isNumber && scale != 1 {
			y = n * scale
		}
		if to == "" || fields[to] != nil {
			to = name
		}
		if to != name || y != nil && !same(x, y) {
			delete(fields, name)
			fields[to] = y
			changed = true
		}
	}
	return changed
}

// same compares what plainNumber may change.
func same(x, y any) bool {
	_, words := x.(string)
	_, still := y.(string)
	return words == still
}

// plainNumber returns a number that was written in quotes, or the value as it is.
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
