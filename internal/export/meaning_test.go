package export_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/export"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// said is the words of an export as numbers.
type said struct {
	t     *testing.T
	words map[string]string
	text  string
}

// n returns a number, or def where nothing is said.
func (s said) n(name string, def int) int {
	s.t.Helper()
	v, ok := s.words[name]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		s.t.Errorf("%s: %v", name, err)
	}
	return n
}

func (s said) has(name string) bool { _, ok := s.words[name]; return ok }

func (s said) want(what string, got, want int) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: got %d, want %d in\n%s", what, got, want, s.text)
	}
}

// What an export says comes to the plan's own numbers by each system's rules: devices, replicas, stages,
// micro-batches and shards.
func TestMeaning(t *testing.T) {
	rules := map[string]func(said, strategy.Strategy, plan.Model, int){
		"megatron": megatronMeans, "torchtitan": titanMeans, "paddle": paddleMeans, "deepspeed": deepspeedMeans,
	}
	for _, system := range export.Systems() {
		for i, x := range spread {
			t.Run(system+"/"+x.strategy, func(t *testing.T) {
				text, err := writeSpread(t, system, i)
				if err != nil {
					t.Skip(err) // TestRefuses
				}
				name, _, _ := strings.Cut(x.model, " ")
				m, _ := plan.ModelPreset(name)
				s, _ := strategy.Parse(x.strategy)
				for _, n := range []*int{&s.DP, &s.TP, &s.PP, &s.CP, &s.EP, &s.ETP, &s.VPP, &s.MicroBatch} {
					*n = max(1, *n)
				}
				rules[system](said{t, words(t, system, text), text}, s, m, x.batch)
			})
		}
	}
}

func megatronMeans(w said, s strategy.Strategy, m plan.Model, batch int) {
	tp, pp, cp := w.n("tensor-model-parallel-size", 1), w.n("pipeline-model-parallel-size",
		1), w.n("context-parallel-size", 1)
	dp := s.Devices() / (tp * pp * cp)
	w.want("replicas", dp, s.DP)
	w.want("micro-batches", w.n("global-batch-size", 0)/(w.n("micro-batch-size", 0)*dp),
		batch/(s.DP*s.MicroBatch))
	chunks := pp
	if w.has("num-layers-per-virtual-pipeline-stage") {
		chunks = m.Layers / w.n("num-layers-per-virtual-pipeline-stage", 0)
	}
	if layout := strings.Trim(w.words["pipeline-model-parallel-layout"], "'"); layout != "" {
		parts := strings.Split(strings.Trim(layout, "EL"), "|")
		chunks = len(parts)
		for i, p := range parts {
			n := strings.Count(p, "t")
			if _, count, ok := strings.Cut(p, "*"); ok {
				n, _ = strconv.Atoi(count)
			}
			w.want("layers of chunk "+strconv.Itoa(i), n, s.Layers[i])
		}
	}
	w.want("chunks", chunks, s.PP*s.VPP)
	if s.Zero > 0 {
		want := s.Shard
		if want == 0 {
			want = s.DP * s.CP
		}
		w.want("shards", dp*cp/w.n("num-distributed-optimizer-instances", 1), want)
	}
	megatronNeeds(w, tp*cp > 1)
}

// megatronNeeds is which flags must not stand alone.
func megatronNeeds(w said, ordered bool) {
	for _, x := range []struct{ name, needs string }{
		{"use-megatron-fsdp", "ckpt-format"}, {"optimizer-cpu-offload",
			"use-precision-aware-optimizer"}, {"use-precision-aware-optimizer", "use-distributed-optimizer"},
		{"overlap-param-gather", "overlap-grad-reduce"}, {"moe-grouped-gemm", "bf16"}, {"recompute-method",
			"recompute-num-layers"},
	} {
		if w.has(x.name) && !w.has(x.needs) {
			w.t.Errorf("--%s without --%s", x.name, x.needs)
		}
	}
	if env := strings.Contains(w.text, "CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun"); env != (ordered &&
		!w.has("use-megatron-fsdp")) {
		w.t.Errorf("CUDA_DEVICE_MAX_CONNECTIONS=1: %v in\n%s", env, w.text)
	}
}

func titanMeans(w said, s strategy.Strategy, m plan.Model, batch int) {
	p := func(name string, def int) int { return w.n("parallelism."+name, def) }
	replicate, shard, tp, pp, cp := p("data_parallel_replicate_degree", 0), p("data_parallel_shard_degree",
		0), p("tensor_parallel_degree", 0), p("pipeline_parallel_degree", 0), p("context_parallel_degree", 0)
	w.want("devices", replicate*shard*tp*pp*cp, s.Devices())
	local := w.n("training.local_batch_size", 0)
	w.want("batches of a step", w.n("training.global_batch_size", 0)%(local*replicate*shard), 0)
	if shard*cp == 1 && replicate > 1 && tp*pp > 1 {
		w.t.Error("replicas beside other parallelism")
	}
	if ep, etp := p("expert_parallel_degree", 1), p("expert_tensor_parallel_degree", 1); ep > 1 {
		unit := cp
		if etp != tp {
			unit *= tp
		}
		if (etp != tp && etp != 1) || ep%unit != 0 || shard*unit%ep != 0 {
			w.t.Errorf("ep %d of shards %d, cp %d, tp %d, etp %d", ep, shard, cp, tp, etp)
		}
	}
	if pp == 1 {
		return
	}
	w.want("micro-batches", local/p("pipeline_parallel_microbatch_size", 0), batch/(s.DP*s.MicroBatch))
	stages := strings.Count(w.text, "  [")
	if per := p("pipeline_parallel_layers_per_stage", 0); per > 0 {
		stages = (m.Layers + p("pipeline_parallel_first_stage_less_layers", 1) +
			p("pipeline_parallel_last_stage_less_layers", 1) + per - 1) / per
	}
	w.want("stages", stages, s.PP*s.VPP)
}

func paddleMeans(w said, s strategy.Strategy, _ plan.Model, batch int) {
	tp, pp, shard := w.n("tensor_parallel_degree", 0), w.n("pipeline_parallel_degree",
		0), w.n("sharding_parallel_degree", 0)
	cp := w.n("sep_parallel_degree", 0) * w.n("context_parallel_degree", 0)
	w.want("devices", s.Devices()%(tp*pp*cp*shard), 0)
	w.want("replicas", s.Devices()/(tp*pp*cp), s.DP)
	w.want("batch", w.n("per_device_train_batch_size", 0)*w.n("gradient_accumulation_steps", 0)*s.DP, batch)
	if none := w.words["sharding"] == `""`; none != (shard == 1) || pp > 1 && !none &&
		w.words["sharding"] != "stage1" {
		w.t.Errorf("sharding %s over %d with pp %d", w.words["sharding"], shard, pp)
	}
}

func deepspeedMeans(w said, s strategy.Strategy, _ plan.Model, batch int) {
	replicas := w.n("train_micro_batch_size_per_gpu", 0) * w.n("gradient_accumulation_steps", 0) * s.DP
	w.want("batch", replicas, batch)
	if tp := w.n("tensor_parallel.autotp_size", 1); w.has("train_batch_size") == (tp > 1) {
		w.t.Errorf("train_batch_size with autotp_size %d", tp)
	}
	if w.has("sequence_parallel_size") {
		w.want("devices", w.n("sequence_parallel_size", 0)*w.n("data_parallel_size", 0), s.Devices())
	}
	if stage := w.n("zero_optimization.stage", 0); s.PP > 1 && stage > 1 || stage < 3 &&
		w.has("zero_optimization.offload_optimizer.ratio") {
		w.t.Errorf("stage %d in\n%s", stage, w.text)
	}
}
