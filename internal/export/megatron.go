package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/plan"
)

// megatron is flags of Megatron-LM's pretrain_gpt.py.
func megatron(j *job) string {
	f := &flags{}
	m, s := &j.m, &j.s
	f.add("num-layers", m.Layers)
	f.add("hidden-size", m.Hidden)
	f.add("num-attention-heads", m.Heads)
	if m.KVHeads > 0 && m.KVHeads != m.Heads {
		f.on("group-query-attention")
		f.add("num-query-groups", m.KVHeads)
	}
	if m.HeadDim > 0 {
		f.add("kv-channels", m.HeadDim)
	}
	f.add("ffn-hidden-size", m.FFN)
	f.add("seq-length", j.w.Seq)
	f.add("max-position-embeddings", max(m.Positions, j.w.Seq))
	megatronModel(j, f)
	f.add("tensor-model-parallel-size", s.TP)
	if s.SP {
		f.on("sequence-parallel")
	}
	f.add("context-parallel-size", s.CP)
	if s.CP > 1 {
		kind := map[string]string{"": "p2p", "ring": "p2p", "gather": "all_gather", "ulysses": "a2a"}[s.CPKind]
		f.add("cp-comm-type", kind)
	}
	megatronPipeline(j, f)
	f.add("micro-batch-size", s.Micro)
	f.add("global-batch-size", j.w.Batch)
	megatronState(j, f)
	switch j.w.Precision {
	case "", "bf16":
		f.on("bf16")
	case "fp16":
		f.on("fp16")
	case "fp8", "mxfp8":
		f.on("bf16")
		f.add("fp8-format", "hybrid")
	default:
		j.note("precision %s: choose the flags by hand", j.w.Precision)
	}
	return fmt.Sprintf("torchrun --nnodes %d --nproc-per-node %d pretrain_gpt.py \\\n%s\n", j.hosts, j.devices, f.text())
}

func megatronModel(j *job, f *flags) {
	m, s := &j.m, &j.s
	if m.Gated {
		f.on("swiglu")
	}
	if !m.LayerNorm {
		f.add("normalization", "RMSNorm")
	}
	if !m.Bias {
		f.on("disable-bias-linear")
	}
	if m.QKVBias {
		f.on("add-qkv-bias")
	}
	if m.Positions == 0 {
		f.add("position-embedding-type", "rope")
	}
	if !m.Tied {
		f.on("untie-embeddings-and-output-weights")
	}
	if m.MLA() {
		f.on("multi-latent-attention")
		f.add("kv-lora-rank", m.Latent.KVRank)
		if m.Latent.QRank > 0 {
			f.add("q-lora-rank", m.Latent.QRank)
		}
		f.add("qk-head-dim", m.Latent.Nope)
		f.add("qk-pos-emb-head-dim", m.Latent.Rope)
		f.add("v-head-dim", m.Latent.V)
	}
	if !m.MoE() {
		return
	}
	f.add("num-experts", m.Experts.Count)
	f.add("moe-router-topk", m.Experts.TopK)
	f.add("moe-ffn-hidden-size", m.Experts.FFN)
	if m.Experts.Shared > 0 {
		f.add("moe-shared-expert-intermediate-size", m.Experts.Shared)
	}
	if d := m.Experts.Dense; d > 0 {
		f.add("moe-layer-freq", fmt.Sprintf("'([0]*%d+[1]*%d)'", d, m.Layers-d))
	}
	f.add("expert-model-parallel-size", s.EP)
	f.add("expert-tensor-parallel-size", s.ETP)
	f.add("moe-token-dispatcher-type", "alltoall")
	f.on("moe-grouped-gemm")
}

func megatronPipeline(j *job, f *flags) {
	s := &j.s
	f.add("pipeline-model-parallel-size", s.PP)
	if s.PP == 1 {
		return
	}
	switch j.schedule() {
	case "1f1b", "interleaved":
	default:
		j.note("schedule %s: Megatron has 1f1b and interleaved: expect its bubble in place of the predicted one", j.schedule())
	}
	if j.even() {
		if s.VPP > 1 {
			f.add("num-layers-per-virtual-pipeline-stage", j.m.Layers/(s.PP*s.VPP))
		}
		return
	}
	f.add("pipeline-model-parallel-layout", "'"+layout(j.chunks())+"'")
}

// layout is the stages in Megatron's letters: E embedding, t a layer, L the loss, | between stages.
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
	switch s.Zero {
	case 1:
		f.on("use-distributed-optimizer")
		f.on("overlap-param-gather")
	case 2, 3:
		f.on("use-megatron-fsdp")
		f.add("data-parallel-sharding-strategy", []string{2: "optim_grads", 3: "optim_grads_params"}[s.Zero])
		f.on("use-distributed-optimizer")
		if s.PP > 1 {
			j.note("zero %d with a pipeline: Megatron-FSDP is meant for pp 1; zero 1 is --use-distributed-optimizer", s.Zero)
		}
	}
	if s.Zero > 0 && s.Shard > 0 && s.Shard < s.DP*s.CP {
		f.add("num-distributed-optimizer-instances", s.DP*s.CP/s.Shard)
	}
	switch s.Recompute.Mode {
	case plan.Full:
		f.add("recompute-granularity", "full")
		f.add("recompute-method", "block")
		n := s.Recompute.Layers
		if n == 0 {
			n = slices.Max(j.chunks())
		}
		f.add("recompute-num-layers", n)
	case plan.Selective:
		f.add("recompute-granularity", "selective")
	}
	if s.Offload.Optimizer > 0 {
		f.on("optimizer-cpu-offload")
		f.add("optimizer-offload-fraction", fmt.Sprintf("%g", s.Offload.Optimizer))
	}
	if s.Offload.Activations > 0 {
		f.on("fine-grained-activation-offloading")
		j.note("activations offloaded by %g%%: choose the modules with --offload-modules", 100*s.Offload.Activations)
	}
}

// flags is a command line under way.
type flags struct{ list []string }

func (f *flags) add(name string, value any) {
	f.list = append(f.list, fmt.Sprintf("--%s %v", name, value))
}

func (f *flags) on(name string) { f.list = append(f.list, "--"+name) }

func (f *flags) text() string { return "  " + strings.Join(f.list, " \\\n  ") }
