package export

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/strategy"
)

// paddle returns flags of PaddleNLP's run_pretrain.py. They follow a JSON file with the arguments that are
// not part of a plan, and override it. Notes cannot be in that file, since PaddleNLP rejects unknown
// fields.
func paddle(j *job) string {
	f, s := &flags{}, &j.s
	f.add("max_seq_length", j.w.Seq)
	f.add("per_device_train_batch_size", s.MicroBatch)
	f.add("gradient_accumulation_steps", j.micros)
	f.add("tensor_parallel_degree", s.TP)
	f.add("sequence_parallel", s.Sequence && s.TP > 1)
	paddleContext(j, f)
	paddlePipeline(j, f)
	paddleState(j, f)
	paddleRecompute(j, f)
	if j.m.MoE() && s.EP > 1 {
		f.add("expert_parallel_degree", s.EP)
		j.note("experts over %d devices: expert_parallel_degree is in PaddleNLP since DeepSeek-V3; before, "+
			"use_expert_parallel takes all replicas", s.EP)
		if s.ETP > 1 {
			j.note("each expert over %d devices: PaddleNLP keeps experts whole", s.ETP)
		}
	}
	f.add("use_flash_attention", !j.w.Software.Unfused)
	paddlePrecision(j, f)
	j.note("pretrain_argument.json is one of llm/config with the model, tokenizer, data and learning rate")
	return fmt.Sprintf("python -m paddle.distributed.launch --nnodes %d --nproc_per_node %d run_pretrain.py "+
		"pretrain_argument.json \\\n%s\n", j.hosts, j.devices, f.text())
}

func paddleContext(j *job, f *flags) {
	s := &j.s
	sep, ring := 1, s.CP
	if s.Context == "ulysses" {
		sep, ring = s.CP, 1
	}
	f.add("sep_parallel_degree", sep)
	f.add("context_parallel_degree", ring)
	if j.m.Heads%sep != 0 {
		j.refuse("cp %d by ulysses: Paddle wants a divisor of %d heads: pin cp to one or cp_kind=ring", s.CP,
			j.m.Heads)
	}
	if s.CP > 1 && s.Context == "gather" {
		j.note("context parallelism by gather: PaddleNLP passes keys and values round a ring")
	}
}

func paddlePipeline(j *job, f *flags) {
	s := &j.s
	f.add("pipeline_parallel_degree", s.PP)
	f.add("virtual_pp_degree", s.VPP)
	if s.PP == 1 {
		return
	}
	if name := j.otherSchedule("1f1b", "interleaved"); name != "" {
		j.note("schedule %s: PaddleNLP has 1f1b and interleaved: expect its bubble and memory in place of the "+
			"predicted ones", name)
	}
	switch {
	case s.VPP > 1 && s.PP == 2:
		j.refuse("vpp %d with pp 2: Paddle interleaves from pp 3: pin vpp=1", s.VPP)
	case s.VPP > 1 && j.micros%s.PP != 0:
		j.refuse("%d micro-batches with vpp %d: Paddle wants a multiple of pp %d: pin vpp=1", j.micros, s.VPP, s.PP)
	case s.VPP > 1 && j.m.Layers%(s.PP*s.VPP) != 0:
		j.refuse("%d layers with vpp %d: Paddle wants a multiple of pp·vpp = %d: pin vpp=1", j.m.Layers, s.VPP,
			s.PP*s.VPP)
	case !j.even():
		j.note("stages of %v layers: PaddleNLP cuts them evenly: give the model's PipelineLayer a seg_method of "+
			"your own", j.chunks())
	}
}

// paddleState sets sharding, which Paddle does only over replicas.
func paddleState(j *job, f *flags) {
	s := &j.s
	degree := j.shards()
	if s.Zero > 0 && s.CP > 1 {
		j.note("state over %d ranks: Paddle shards over replicas, not over parts of a sequence: here over %d",
			j.sharded(), degree)
	}
	if s.Zero > 0 && degree > 1 {
		stage := s.Zero
		if s.PP > 1 && s.Zero > 1 {
			j.note("zero %d with a pipeline: Paddle has stage1 there", s.Zero)
			stage = 1
		}
		f.add("sharding", fmt.Sprintf("stage%d", stage))
		f.add("sharding_parallel_degree", degree)
	} else {
		f.add("sharding", `""`) // overrides the JSON file
		f.add("sharding_parallel_degree", 1)
	}
	if x := s.Offload.Optimizer; x > 0 {
		f.add("offload_optim", true)
		j.note("optimizer's state offloaded by %g%%: Paddle offloads all of it between steps and brings it back "+
			"for each", 100*x)
	}
	if s.Offload.Activations > 0 {
		j.leaveOut("activations", s.Offload.Activations, "PaddleNLP has no argument for it")
	}
}

func paddleRecompute(j *job, f *flags) {
	mode, layers := j.s.Recompute.Mode(), j.s.Recompute.Layers()
	f.add("recompute", j.recomputes())
	switch {
	case mode == strategy.Selective:
		f.add("recompute_granularity", "core_attn")
	case mode == strategy.Full:
		f.add("recompute_granularity", "full")
		if layers < 0 || layers >= j.m.Layers {
			return
		}
		if j.s.PP > 1 {
			j.note("recompute %d layers of each chunk: PaddleNLP recomputes all layers of a pipeline", layers)
			return
		}
		var rest []string
		for i := layers; i < j.m.Layers; i++ {
			rest = append(rest, fmt.Sprint(i))
		}
		f.add("no_recompute_layers", strings.Join(rest, " "))
	}
}

// paddlePrecision keeps parameters in half precision with a master copy and gradients in float32, as plans
// assume.
func paddlePrecision(j *job, f *flags) {
	p := j.precision()
	if p != "bf16" && p != "fp16" && p != "fp32" {
		j.note("precision %s: PaddleNLP's trainer has bf16, fp16 and fp32: this is bf16", p)
		p = "bf16"
	}
	f.add("bf16", p == "bf16")
	f.add("fp16", p == "fp16")
	if p != "fp32" {
		f.add("fp16_opt_level", "O2")
		f.add("amp_master_grad", true)
	}
}
