package export

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/pipeline"
)

func titanPipeline(j *job) []string {
	s := &j.s
	rows := []string{fmt.Sprintf("pipeline_parallel_degree = %d", s.PP)}
	if s.PP == 1 {
		return rows
	}
	class := s.Class()
	if class.Torch == "" {
		nearest := pipeline.Default(s.VPP)
		j.note("schedule %s: torchtitan has no such one: %s is the nearest: expect its bubble in place of the "+
			"predicted one",
			class.Name, nearest.Torch)
		class = nearest
	}
	titanMicros(j, class)
	rows = append(rows, fmt.Sprintf("pipeline_parallel_schedule = %q", class.Torch),
		fmt.Sprintf("pipeline_parallel_microbatch_size = %d", s.MicroBatch))
	if class.Pairs && s.EP > 1 && j.recomputes() {
		rows = append(rows, "pipeline_parallel_expert_parallel_overlap = false")
		j.note("dualpipev with recomputation: torchtitan overlaps experts' exchange only without: overlap is off")
	}
	if !j.even() {
		return append(rows, "module_fqns_per_model_part = [\n"+titanParts(j.chunks())+"\n]")
	}
	// torchtitan counts embedding and output as a layer each by default, which would give other stages than
	// these.
	return append(rows, fmt.Sprintf("pipeline_parallel_layers_per_stage = %d", j.m.Layers/(s.PP*s.VPP)),
		"pipeline_parallel_first_stage_less_layers = 0", "pipeline_parallel_last_stage_less_layers = 0")
}

// titanMicros checks PyTorch's requirements on the number of micro-batches.
func titanMicros(j *job, class *pipeline.Class) {
	pp := j.s.PP
	switch {
	case class.Chunks == 0:
		if rounds := max(1, j.micros/pp); j.micros%rounds != 0 {
			j.refuse("%d micro-batches: torchtitan's Interleaved1F1B wants a multiple of its %d rounds of pp %d: "+
				"plan another batch or pin vpp=1", j.micros, rounds, pp)
		}
	case class.Pairs:
		if j.micros < 2*pp {
			j.refuse("%d micro-batches: torchtitan's DualPipeV wants at least 2·pp = %d: pin schedule=zbv", j.micros,
				2*pp)
		}
	}
}

// titanParts returns the modules of each stage.
func titanParts(chunks []int) string {
	var parts []string
	layer := 0
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
	return strings.Join(parts, ",\n")
}
