package export

import (
	"encoding/json"

	"github.com/galley-ml/galley/internal/plan"
)

// paddle is the JSON of arguments that PaddleNLP's run_pretrain.py takes.
func paddle(j *job) string {
	s := &j.s
	c := map[string]any{
		"max_seq_length":              j.w.Seq,
		"per_device_train_batch_size": s.Micro,
		"gradient_accumulation_steps": j.micros,
		"tensor_parallel_degree":      s.TP,
		"pipeline_parallel_degree":    s.PP,
		"virtual_pp_degree":           s.VPP,
		"sequence_parallel":           s.SP,
		"sep_parallel_degree":         1,
		"context_parallel_degree":     1,
		"use_flash_attention":         !j.w.Software.Unfused,
		"bf16":                        j.w.Precision == "" || j.w.Precision == "bf16",
		"fp16":                        j.w.Precision == "fp16",
	}
	if s.CPKind == "ulysses" {
		c["sep_parallel_degree"] = s.CP
	} else {
		c["context_parallel_degree"] = s.CP
	}
	paddleState(j, c)
	paddlePipeline(j, c)
	if j.m.MoE() && s.EP > 1 {
		c["expert_parallel_degree"] = s.EP
	}
	if s.Offload.Activations > 0 {
		j.note("activations offloaded by %g%%: no argument for it", 100*s.Offload.Activations)
	}
	if len(j.notes) > 0 {
		c["_notes"] = j.notes
	}
	return jsonText(c)
}

func paddleState(j *job, c map[string]any) {
	s := &j.s
	degree := s.DP
	if s.Shard > 0 {
		degree = s.Shard
	}
	if s.Zero > 0 {
		stage := []string{1: "stage1", 2: "stage2", 3: "stage3"}[s.Zero]
		if s.PP > 1 && s.Zero > 1 {
			j.note("zero %d with a pipeline: Paddle has stage1 there", s.Zero)
			stage = "stage1"
		}
		if s.Offload.Optimizer > 0 {
			stage += " offload"
		}
		c["sharding"], c["sharding_parallel_degree"] = stage, degree
	}
	switch s.Recompute.Mode {
	case plan.Full:
		c["recompute"], c["recompute_granularity"] = true, "full"
		if s.Recompute.Layers > 0 {
			j.note("recompute %d layers of each chunk: give the others in no_recompute_layers", s.Recompute.Layers)
		}
	case plan.Selective:
		c["recompute"], c["recompute_granularity"] = true, "core_attn"
	default:
		c["recompute"] = false
	}
}

func paddlePipeline(j *job, c map[string]any) {
	if j.s.PP == 1 {
		return
	}
	mode := map[string]string{"1f1b": "1F1B", "interleaved": "VPP", "fthenb": "FThenB", "zbh1": "ZBH1", "zbv": "ZBVPP"}[j.schedule()]
	if mode == "" {
		j.note("schedule %s: Paddle has 1F1B, VPP, FThenB, ZBH1 and ZBVPP: VPP is the nearest", j.schedule())
		mode = "VPP"
	}
	c["pipeline_schedule_mode"] = mode
	if !j.even() {
		j.note("stages of %v layers: cut them with SegmentLayers or split points by hand", j.chunks())
	}
}

// jsonText is a config with its keys in order.
func jsonText(c any) string {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil { // numbers and words only
		panic("export: " + err.Error())
	}
	return string(text) + "\n"
}
