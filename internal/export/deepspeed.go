package export

import (
	"cmp"
	"encoding/json"

	"github.com/galley-ml/galley/strategy"
)

// deepspeed returns a JSON config of DeepSpeed.
func deepspeed(j *job) string {
	s := &j.s
	c := map[string]any{
		"train_batch_size":               j.w.Batch,
		"train_micro_batch_size_per_gpu": s.MicroBatch,
		"gradient_accumulation_steps":    j.micros,
		"zero_optimization":              deepspeedState(j),
		"bf16": map[string]any{"enabled": j.precision() != "fp16" &&
			j.precision() != "fp32"},
		"fp16": map[string]any{"enabled": j.precision() == "fp16"},
	}
	switch j.precision() {
	case "bf16", "fp16", "fp32":
	default:
		j.note("precision %s: DeepSpeed has bf16, fp16 and fp32: this is bf16", j.precision())
	}
	deepspeedTensor(j, c)
	deepspeedSequence(j, c)
	deepspeedPipeline(j)
	deepspeedRecompute(j, c)
	if j.m.MoE() && s.EP > 1 {
		j.note("experts over %d devices: ep_size of deepspeed.moe.layer.MoE in the model", s.EP)
	}
	if len(j.notes) > 0 {
		c["_notes"] = j.notes
	}
	return jsonText(c)
}

func deepspeedState(j *job) map[string]any {
	s := &j.s
	stage := s.Zero
	if s.PP > 1 && s.Zero > 1 {
		stage = 1
		j.note("zero %d with a pipeline: DeepSpeed allows stage 1 there", s.Zero)
	}
	zero := map[string]any{"stage": stage, "overlap_comm": true, "contiguous_gradients": true}
	if n := j.sharded(); s.Zero > 0 && n < s.DP*s.CP {
		if stage == 3 {
			zero["mics_shard_size"] = n
			j.note("state over %d of %d ranks: build the model under deepspeed.zero.MiCS_Init", n, s.DP*s.CP)
		} else {
			j.note("state over %d of %d ranks: DeepSpeed shards stage %d over all; only stage 3 has smaller groups "+
				"(MiCS)", n, s.DP*s.CP, stage)
		}
	}
	switch x := s.Offload.Optimizer; {
	case x == 0:
	case stage == 0:
		j.leaveOut("optimizer", x, "DeepSpeed offloads from stage 1")
	case stage < 3:
		zero["offload_optimizer"] = map[string]any{"device": "cpu", "pin_memory": true}
		if x < 1 {
			j.note("optimizer's state offloaded by %g%%: DeepSpeed offloads all of it at stage %d: parts are for "+
				"stage 3", 100*x, stage)
		}
	default:
		zero["offload_optimizer"] = map[string]any{"device": "cpu", "pin_memory": true, "ratio": x}
	}
	return zero
}

// deepspeedTensor sets tensor parallelism.
func deepspeedTensor(j *job, c map[string]any) {
	s := &j.s
	switch {
	case s.TP == 1:
	case s.PP > 1 || s.CP > 1:
		j.note("tensor parallelism of %d with a pipeline or parts of sequences is the model's own "+
			"(Megatron-DeepSpeed), with an mpu that knows the replicas", s.TP)
	default:
		c["tensor_parallel"] = map[string]any{"autotp_size": s.TP}
		// Without an mpu DeepSpeed counts every device as a replica when it checks the batch.
		delete(c, "train_batch_size")
		j.note("a batch of %d: DeepSpeed counts one for each of the %d ranks of tensor parallelism: they must "+
			"read the same sequences", j.w.Batch, s.TP)
		if s.Sequence {
			j.note("sequence parallelism beside tensor parallelism: left out: DeepSpeed's AutoTP has none")
		}
		if s.Zero == 3 {
			j.note("zero 3 with tensor parallelism: DeepSpeed 0.19.2 refuses it: pin zero=2 there")
		}
	}
}

// deepspeedSequence sets sequence parallelism, for which DeepSpeed makes a mesh of all devices.
func deepspeedSequence(j *job, c map[string]any) {
	s := &j.s
	if s.CP == 1 {
		return
	}
	if j.m.Heads%s.CP != 0 {
		j.refuse("cp %d: DeepSpeed's Ulysses wants a divisor of %d heads: pin cp to one", s.CP, j.m.Heads)
	}
	if s.Context != "ulysses" {
		j.note("context parallelism of %d by %s: DeepSpeed has Ulysses", s.CP, cmp.Or(s.Context, "ring"))
	}
	switch {
	case s.PP > 1:
		j.refuse("cp %d with a pipeline: DeepSpeed's PipelineModule takes each part of a sequence for a "+
			"replica: pin cp=1", s.CP)
	case s.TP == 1:
		c["sequence_parallel_size"], c["data_parallel_size"] = s.CP, s.DP
	}
}

// deepspeedPipeline notes what must be done in the model's code: DeepSpeed's config has no pipeline stages.
func deepspeedPipeline(j *job) {
	s := &j.s
	if s.PP == 1 {
		return
	}
	j.note("a pipeline: PipelineModule(num_stages=%d) in the model", s.PP)
	if name := j.otherSchedule("1f1b"); name != "" {
		j.note("schedule %s: DeepSpeed has 1f1b, with one chunk a rank: expect its bubble in place of the "+
			"predicted one", name)
	}
	if !j.even() {
		j.note("stages of %v layers: give PipelineModule a partition of your own", j.chunks())
	}
}

func deepspeedRecompute(j *job, c map[string]any) {
	s := &j.s
	offload := s.Offload.Activations
	switch s.Recompute.Mode() {
	case strategy.Full:
		c["activation_checkpointing"] = map[string]any{"partition_activations": false,
			"cpu_checkpointing": offload > 0, "number_checkpoints": j.m.Layers / s.PP}
		if s.PP > 1 && s.Recompute.Layers() < 0 {
			c["pipeline"] = map[string]any{"activation_checkpoint_interval": 1}
			return
		}
		j.note("recompute %s: wrap the layers of the model in deepspeed.checkpointing.checkpoint",
			map[bool]string{true: "all layers", false: "some layers of each stage"}[s.Recompute.Layers() < 0])
		return
	case strategy.Selective:
		j.note("recompute selective: wrap attention's core in the model in deepspeed.checkpointing.checkpoint")
	}
	if offload > 0 {
		j.leaveOut("activations", offload, "DeepSpeed offloads what it recomputes from (cpu_checkpointing)")
	}
}

// jsonText prints a config with its keys in order.
func jsonText(c any) string {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil { // cannot fail: the config has only numbers and words
		panic("export: " + err.Error())
	}
	return string(text) + "\n"
}
