package export

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/strategy"
)

// torchtitan returns a TOML file of torchtitan's job config.
func torchtitan(j *job) string {
	s := &j.s
	var b strings.Builder
	section := func(name string, rows ...string) {
		fmt.Fprintf(&b, "[%s]\n", name)
		for _, r := range rows {
			if r != "" {
				b.WriteString(r + "\n")
			}
		}
		b.WriteByte('\n')
	}
	name, flavor := titanModel(j)
	section("model", fmt.Sprintf("name = %q", name), fmt.Sprintf("flavor = %q", flavor))
	replicate, shard := titanData(j)
	section("training", fmt.Sprintf("seq_len = %d", j.w.Seq),
		fmt.Sprintf("local_batch_size = %d", s.MicroBatch*titanLocal(j)),
		fmt.Sprintf("global_batch_size = %d", j.w.Batch), titanPrecision(j, shard), titanOffload(j, shard))
	rows := []string{
		fmt.Sprintf("data_parallel_replicate_degree = %d",
			replicate), fmt.Sprintf("data_parallel_shard_degree = %d", shard),
		fmt.Sprintf("fsdp_reshard_after_forward = %q",
			map[bool]string{true: "always", false: "never"}[s.Zero == 3]),
		fmt.Sprintf("tensor_parallel_degree = %d", s.TP),
	}
	rows = append(rows, titanContext(j)...)
	rows = append(rows, titanPipeline(j)...)
	rows = append(rows, titanExperts(j, shard)...)
	section("parallelism", rows...)
	section("activation_checkpoint", titanRecompute(j)...)
	if s.TP > 1 && !s.Sequence {
		j.note("tensor parallelism without sequence parallelism: torchtitan always has both")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// flavors are the model shapes that torchtitan has, by our names.
var flavors = map[string][2]string{
	"llama-3-8b": {"llama3", "8B"}, "llama-3-70b": {"llama3", "70B"}, "llama-3-405b": {"llama3", "405B"},
	"deepseek-v3": {"deepseek_v3", "671B"},
	"qwen3-8b":    {"qwen3", "8B"}, "qwen3-32b": {"qwen3", "32B"},
	"qwen3-30b-a3b": {"qwen3", "30B-A3B"}, "qwen3-235b-a22b": {"qwen3", "235B-A22B"},
}

func titanModel(j *job) (name, flavor string) {
	if known, ok := flavors[j.m.Name]; ok {
		if known[0] == "qwen3" && j.s.PP > 1 {
			j.note("qwen3 with a pipeline: torchtitan's TrainSpec of qwen3 has pipelining_fn = None: give it " +
				"pipeline_llm")
		}
		return known[0], known[1]
	}
	j.note("model %s: torchtitan has no flavor of that name: define one with its shape and name it here",
		j.m.Name)
	return "llama3", j.m.Name
}

// titanLocal returns the number of micro-batches of a pipeline: torchtitan splits a local batch into
// them.
func titanLocal(j *job) int {
	if j.s.PP == 1 {
		return 1
	}
	return j.micros
}

// titanData returns the degrees of replication and sharding: torchtitan's hybrid sharding. State is sharded
// over context-parallel ranks, too.
func titanData(j *job) (replicate, shard int) {
	s := &j.s
	if s.Zero == 0 {
		return titanReplicas(j)
	}
	if s.Zero == 1 {
		j.note("zero 1: torchtitan shards gradients and parameters, too; they stay gathered after the forward pass")
	}
	want := j.sharded()
	shard = j.shards()
	if shard*s.CP != want {
		j.note("state over %d ranks: torchtitan shards over all %d of context parallelism: here over %d", want,
			s.CP, shard*s.CP)
	}
	return s.DP / shard, shard
}

// titanReplicas returns the degrees for data parallelism without sharding.
func titanReplicas(j *job) (replicate, shard int) {
	s := &j.s
	switch {
	case s.CP > 1:
		j.note("zero 0: torchtitan shards over the %d ranks of context parallelism", s.CP)
	case s.DP > 1 && s.TP*s.PP*s.EP > 1:
		j.note("zero 0: torchtitan replicates only where nothing else is parallel: here parameters are sharded " +
			"and stay gathered after the forward pass")
		return 1, s.DP
	}
	return s.DP, 1
}

func titanPrecision(j *job, shard int) string {
	switch p := j.precision(); p {
	case "fp32":
		return `mixed_precision_param = "float32"`
	case "bf16":
	case "fp8":
		j.note(`precision fp8: add converters = ["quantize.linear.float8"] to [model]`)
	case "mxfp8":
		j.note(`precision mxfp8: add converters = ["quantize.linear.mx"] to [model]`)
	default:
		j.note("precision %s: torchtitan has bfloat16 and float32: this is bfloat16", p)
	}
	if s := &j.s; s.DP*s.CP == 1 || shard*s.CP == 1 && s.TP*s.PP > 1 {
		j.note(`no shards: torchtitan casts parameters where it shards them: they stay float32 here; dtype = "bfloat16" has no float32 copy`)
	}
	return `mixed_precision_param = "bfloat16"`
}

func titanOffload(j *job, shard int) string {
	s := &j.s
	if s.Offload.Activations > 0 {
		j.leaveOut("activations", s.Offload.Activations, "torchtitan's config has no word for it")
	}
	switch {
	case s.Offload.Optimizer == 0:
		return ""
	case shard*s.CP == 1:
		j.leaveOut("optimizer", s.Offload.Optimizer, "torchtitan offloads what it shards")
		return ""
	}
	j.note("optimizer's state offloaded by %g%%: torchtitan offloads all of it, and parameters and gradients",
		100*s.Offload.Optimizer)
	return "enable_cpu_offload = true"
}

func titanContext(j *job) []string {
	s := &j.s
	rows := []string{fmt.Sprintf("context_parallel_degree = %d", s.CP)}
	if unit := 2 * s.CP * s.TP; s.TP*s.CP > 1 && j.w.Seq%unit != 0 {
		j.refuse("sequences of %d: torchtitan wants a multiple of 2·cp·tp = %d: pin another cp or tp", j.w.Seq,
			unit)
	}
	if s.CP == 1 {
		return rows
	}
	method := "alltoall"
	switch s.Context {
	case "gather":
		method = "allgather"
	case "ulysses":
		j.note("context parallelism by ulysses: torchtitan passes keys and values round a ring")
	}
	return append(rows, fmt.Sprintf("context_parallel_rotate_method = %q", method))
}

// titanExperts returns expert parallelism, which must include all of context parallelism, all or nothing of
// tensor parallelism, and shards.
func titanExperts(j *job, shard int) []string {
	s := &j.s
	if !j.m.MoE() {
		return nil
	}
	tp := s.TP
	switch {
	case s.EP == 1:
		if s.TP > 1 && s.ETP != s.TP {
			j.note("experts whole on %d ranks of tensor parallelism: torchtitan splits them as it does the rest "+
				"where ep is 1", s.TP)
		}
		return []string{"expert_parallel_degree = 1"}
	case s.ETP == s.TP:
		tp = 1
	case s.ETP != 1:
		j.refuse("etp %d with tp %d: torchtitan has etp 1 or tp: pin etp", s.ETP, s.TP)
	}
	if unit := s.CP * tp; s.EP%unit != 0 || shard*unit%s.EP != 0 {
		j.refuse("ep %d: torchtitan wants a multiple of %d that divides %d (cp, shards and, with etp 1, tp): "+
			"pin ep to one", s.EP, unit, shard*unit)
	}
	return []string{fmt.Sprintf("expert_parallel_degree = %d", s.EP),
		fmt.Sprintf("expert_tensor_parallel_degree = %d", s.ETP)}
}

func titanRecompute(j *job) []string {
	mode, layers := j.s.Recompute.Mode(), j.s.Recompute.Layers()
	switch {
	case mode == strategy.Full && layers < 0:
		return []string{`mode = "full"`}
	case mode == strategy.Full:
		longest := (j.m.Layers + j.s.PP*j.s.VPP - 1) / (j.s.PP * j.s.VPP)
		every := max(1, longest/layers)
		j.note("recompute %d layers of each stage: torchtitan takes every n-th layer, here n = %d", layers, every)
		return []string{`mode = "selective"`, fmt.Sprintf("selective_ac_option = %q", fmt.Sprint(every))}
	case mode == strategy.Selective:
		j.note("recompute selective: torchtitan's attention is fused and keeps no scores; its own selective " +
			"mode recomputes products")
	}
	return []string{`mode = "none"`}
}
