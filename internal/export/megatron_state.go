package export

import (
	"fmt"
	"math"
	"strings"
)

func megatronPipeline(j *job, f *flags) {
	s := &j.s
	f.add("pipeline-model-parallel-size", s.PP)
	if s.PP == 1 {
		return
	}
	if name := j.otherSchedule("1f1b", "interleaved"); name != "" {
		j.note("schedule %s: Megatron has 1f1b and interleaved: expect its bubble and memory in place of the "+
			"predicted ones", name)
	}
	if class := s.Class(); j.mixed && class.Vee {
		j.refuse("schedule %s on hosts that differ: Megatron deals chunks to ranks in a loop, not in a V, so "+
			"that they "+
			"come to other hosts: pin schedule=interleaved", class.Name)
	}
	switch {
	case !j.even():
		f.add("pipeline-model-parallel-layout", "'"+layout(j.chunks())+"'")
	case s.VPP > 1:
		f.add("num-layers-per-virtual-pipeline-stage", j.m.Layers/(s.PP*s.VPP))
	}
	if s.VPP > 1 {
		megatronGroups(j, f)
	}
}

// megatronGroups sets the number of consecutive micro-batches of a chunk. Megatron requires at least as many
// as stages in each group, including the last; without the flag a group has as many as there are stages.
func megatronGroups(j *job, f *flags) {
	for n := j.s.PP; n <= j.micros; n++ {
		if rest := j.micros % n; rest == 0 || rest >= j.s.PP {
			if n != j.s.PP {
				f.add("microbatch-group-size-per-virtual-pipeline-stage", n)
			}
			return
		}
	}
	j.refuse("%d micro-batches with %d chunks a rank: Megatron wants at least pp %d: pin vpp=1", j.micros,
		j.s.VPP, j.s.PP)
}

// layout prints the stages in Megatron's letters: E embedding, t a layer, L the loss, | between stages.
func layout(chunks []int) string {
	parts := make([]string, len(chunks))
	for i, n := range chunks {
		parts[i] = strings.Repeat("t", n)
		if n > 3 {
			parts[i] = fmt.Sprintf("t*%d", n)
		}
	}
	parts[0] = "E" + parts[0]
	parts[len(parts)-1] += "L"
	return strings.Join(parts, "|")
}

func megatronState(j *job, f *flags) {
	s := &j.s
	f.on("overlap-grad-reduce")
	if s.Zero > 1 {
		f.on("use-megatron-fsdp")
		f.add("data-parallel-sharding-strategy", []string{2: "optim_grads", 3: "optim_grads_params"}[s.Zero])
		f.add("ckpt-format", "fsdp_dtensor") // the only format that it supports
		if s.PP > 1 {
			j.note("zero %d with a pipeline: Megatron-FSDP is meant for pp 1; zero 1 is --use-distributed-optimizer",
				s.Zero)
		}
	}
	if s.Zero > 0 || s.Offload.Optimizer > 0 {
		f.on("use-distributed-optimizer")
		f.on("overlap-param-gather")
	}
	megatronInstances(j, f)
	megatronOffload(j, f)
}

// megatronInstances sets the number of copies of the sharded state.
func megatronInstances(j *job, f *flags) {
	s := &j.s
	n := s.DP * s.CP / j.sharded()
	if s.Zero == 0 || n == 1 {
		return
	}
	if copies := s.DP * s.CP * s.TP / (s.EP * s.ETP); j.m.MoE() && copies%n != 0 {
		j.refuse("state over %d of %d ranks: Megatron wants the %d copies of an expert divisible by %d: pin "+
			"shard=0", j.sharded(), s.DP*s.CP, copies, n)
	}
	f.add("num-distributed-optimizer-instances", n)
}

func megatronOffload(j *job, f *flags) {
	s := &j.s
	if s.Offload.Optimizer > 0 {
		f.on("optimizer-cpu-offload")
		f.add("optimizer-offload-fraction", fmt.Sprintf("%g", s.Offload.Optimizer))
		f.on("use-precision-aware-optimizer")
		if s.Zero == 0 && s.DP*s.CP > 1 {
			j.note("optimizer's state in the host's memory with zero 0: Megatron offloads the distributed " +
				"optimizer only, which is zero 1")
		}
	}
	switch x := s.Offload.Activations; {
	case x == 0:
	case s.PP == 1 && !j.recomputes() && j.m.Layers > 1:
		n := min(j.m.Layers-1, int(math.Ceil(x*float64(j.m.Layers))))
		f.add("cpu-offloading-num-layers", n)
		j.note("activations offloaded by %g%%: Megatron takes whole layers, here %d of %d", 100*x, n, j.m.Layers)
	default:
		j.leaveOut("activations", x,
			"--cpu-offloading-num-layers takes no pipeline and no recomputation; later versions have "+
				"--fine-grained-activation-offloading with --offload-modules")
	}
}
