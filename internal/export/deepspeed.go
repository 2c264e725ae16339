package export

import "github.com/galley-ml/galley/internal/plan"

// deepspeed is a JSON config of DeepSpeed.
func deepspeed(j *job) string {
	s := &j.s
	zero := map[string]any{"stage": s.Zero, "overlap_comm": true, "contiguous_gradients": true}
	if s.Zero > 0 && s.Shard > 0 && s.Shard < s.DP {
		j.note("state sharded over %d of %d replicas", s.Shard, s.DP)
		if s.Zero == 3 {
			zero["mics_shard_size"] = s.Shard
		} else {
			j.note("DeepSpeed shards zero %d over all replicas; only stage 3 has smaller groups (MiCS)", s.Zero)
		}
	}
	if s.Offload.Optimizer > 0 && s.Zero > 0 {
		zero["offload_optimizer"] = map[string]any{"device": "cpu", "pin_memory": true, "ratio": s.Offload.Optimizer}
	}
	c := map[string]any{
		"train_batch_size":               j.w.Batch,
		"train_micro_batch_size_per_gpu": s.Micro,
		"gradient_accumulation_steps":    j.micros,
		"zero_optimization":              zero,
		"bf16":                           map[string]any{"enabled": j.w.Precision == "" || j.w.Precision == "bf16"},
		"fp16":                           map[string]any{"enabled": j.w.Precision == "fp16"},
	}
	deepspeedModel(j, c, zero)
	if j.m.MoE() && s.EP > 1 {
		j.note("experts over %d devices: ep_size of deepspeed.moe.layer.MoE in the model", s.EP)
	}
	switch s.Recompute.Mode {
	case plan.Full, plan.Selective:
		c["activation_checkpointing"] = map[string]any{
			"partition_activations": s.TP > 1, "cpu_checkpointing": s.Offload.Activations > 0, "number_checkpoints": j.m.Layers / s.PP,
		}
		if s.Recompute.Layers > 0 {
			j.note("recompute %d layers of each stage: wrap those of the model in deepspeed.checkpointing.checkpoint", s.Recompute.Layers)
		}
	}
	if len(j.notes) > 0 {
		c["_notes"] = j.notes
	}
	return jsonText(c)
}

// deepspeedModel is what splits the model itself.
func deepspeedModel(j *job, c, zero map[string]any) {
	s := &j.s
	if s.TP > 1 {
		c["tensor_parallel"] = map[string]any{"autotp_size": s.TP}
		if s.PP > 1 || s.SP {
			j.note("tensor parallelism of %d with sequence or pipeline parallelism is the model's own (Megatron-DeepSpeed)", s.TP)
		}
	}
	if s.CP > 1 {
		c["sequence_parallel_size"] = s.CP
		if s.CPKind != "ulysses" {
			j.note("context parallelism of %d by %s: DeepSpeed has Ulysses", s.CP, s.CPKind)
		}
	}
	if s.PP > 1 {
		c["pipeline"] = map[string]any{"stages": s.PP, "partition": "parameters"}
		if j.schedule() != "1f1b" {
			j.note("schedule %s: DeepSpeed has 1f1b: expect its bubble in place of the predicted one", j.schedule())
		}
		if s.Zero > 1 {
			j.note("zero %d with a pipeline: DeepSpeed allows stage 1 there", s.Zero)
			zero["stage"] = 1
		}
		if !j.even() {
			j.note("stages of %v layers: give PipelineModule a partition of your own", j.chunks())
		}
	}
}
