package export

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/plan"
)

// torchtitan is a TOML file of torchtitan's job config.
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
	section("training", fmt.Sprintf("seq_len = %d", j.w.Seq), fmt.Sprintf("local_batch_size = %d", s.Micro*titanLocal(j)), fmt.Sprintf("global_batch_size = %d", j.w.Batch),
		on(s.Offload.Optimizer > 0, "enable_cpu_offload = true"))
	replicate, shard := titanData(j)
	rows := []string{
		fmt.Sprintf("data_parallel_replicate_degree = %d", replicate), fmt.Sprintf("data_parallel_shard_degree = %d", shard),
		fmt.Sprintf("fsdp_reshard_after_forward = %q", map[bool]string{true: "always", false: "never"}[s.Zero == 3]),
		fmt.Sprintf("tensor_parallel_degree = %d", s.TP), fmt.Sprintf("context_parallel_degree = %d", s.CP),
		on(s.CP > 1, fmt.Sprintf("context_parallel_rotate_method = %q", map[bool]string{true: "alltoall", false: "allgather"}[s.CPKind != "gather"])),
		fmt.Sprintf("pipeline_parallel_degree = %d", s.PP),
	}
	rows = append(rows, titanPipeline(j)...)
	if j.m.MoE() {
		rows = append(rows, fmt.Sprintf("expert_parallel_degree = %d", s.EP), fmt.Sprintf("expert_tensor_parallel_degree = %d", s.ETP))
	}
	section("parallelism", rows...)
	section("activation_checkpoint", titanRecompute(j)...)
	if s.Offload.Activations > 0 {
		j.note("activations offloaded by %g%%: torchtitan's config has no word for it", 100*s.Offload.Activations)
	}
	if s.TP > 1 && !s.SP {
		j.note("tensor parallelism without sequence parallelism: torchtitan always has both")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func on(is bool, row string) string {
	if is {
		return row
	}
	return ""
}

// titanModel guesses torchtitan's name of a preset.
func titanModel(j *job) (name, flavor string) {
	for _, p := range []struct{ prefix, name string }{{"llama-3", "llama3"}, {"deepseek-v3", "deepseek_v3"}, {"qwen3", "qwen3"}} {
		if strings.HasPrefix(j.m.Name, p.prefix) {
			size := j.m.Name[strings.LastIndex(j.m.Name, "-")+1:]
			if p.name == "deepseek_v3" {
				size = "671b"
			}
			return p.name, strings.ToUpper(size)
		}
	}
	j.note("model %s: torchtitan has no flavor of that name: define one with its shape", j.m.Name)
	return "llama3", j.m.Name
}

// titanLocal is how many micro-batches a pipeline takes at a time: torchtitan cuts a local batch into them.
func titanLocal(j *job) int {
	if j.s.PP == 1 {
		return 1
	}
	return j.micros
}

// titanData is replicas and shards: what it calls hybrid sharding.
func titanData(j *job) (replicate, shard int) {
	s := &j.s
	switch {
	case s.Zero == 0:
		return s.DP, 1
	case s.Shard > 0 && s.Shard < s.DP && s.DP%s.Shard == 0:
		return s.DP / s.Shard, s.Shard
	}
	if s.Zero == 1 {
		j.note("zero 1: torchtitan shards gradients and parameters, too; they stay gathered after the forward pass")
	}
	return 1, s.DP
}

func titanPipeline(j *job) []string {
	s := &j.s
	if s.PP == 1 {
		return nil
	}
	name := map[string]string{"1f1b": "1F1B", "interleaved": "Interleaved1F1B", "fthenb": "GPipe", "zbv": "ZBVZeroBubble", "dualpipev": "DualPipeV", "zbh1": "InterleavedZeroBubble"}[j.schedule()]
	if j.schedule() == "zbh1" {
		j.note("schedule zbh1: InterleavedZeroBubble with one stage a rank is the nearest")
	}
	rows := []string{fmt.Sprintf("pipeline_parallel_schedule = %q", name), fmt.Sprintf("pipeline_parallel_microbatch_size = %d", s.Micro)}
	if j.even() {
		return append(rows, fmt.Sprintf("pipeline_parallel_layers_per_stage = %d", j.m.Layers/(s.PP*s.VPP)))
	}
	var parts []string
	layer := 0
	chunks := j.chunks()
	for i, n := range chunks {
		var names []string
		if i == 0 {
			names = append(names, `"tok_embeddings"`)
		}
		for range n {
			names = append(names, fmt.Sprintf("\"layers.%d\"", layer))
			layer++
		}
		if i == len(chunks)-1 {
			names = append(names, `"norm"`, `"output"`)
		}
		parts = append(parts, "  ["+strings.Join(names, ", ")+"]")
	}
	return append(rows, "module_fqns_per_model_part = [\n"+strings.Join(parts, ",\n")+"\n]")
}

func titanRecompute(j *job) []string {
	r := j.s.Recompute
	switch {
	case r.Mode == plan.Full && r.Layers == 0:
		return []string{`mode = "full"`}
	case r.Mode == plan.Full:
		longest := (j.m.Layers + j.s.PP*j.s.VPP - 1) / (j.s.PP * j.s.VPP)
		every := max(1, longest/r.Layers)
		j.note("recompute %d layers of each stage: torchtitan takes every n-th layer, here n = %d", r.Layers, every)
		return []string{`mode = "selective"`, fmt.Sprintf("selective_ac_option = %q", fmt.Sprint(every))}
	case r.Mode == plan.Selective:
		return []string{`mode = "selective"`, `selective_ac_option = "op"`}
	}
	return []string{`mode = "none"`}
}
