package export

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/strategy"
)

// megatron returns flags of Megatron-LM's pretrain_gpt.py.
func megatron(j *job) string {
	f := &flags{}
	megatronModel(j, f)
	megatronExperts(j, f)
	megatronTensor(j, f)
	megatronPipeline(j, f)
	f.add("micro-batch-size", j.s.MicroBatch)
	f.add("global-batch-size", j.w.Batch)
	megatronState(j, f)
	megatronRecompute(j, f)
	megatronPrecision(j, f)
	j.note("add data, tokenizer, learning rate and what else a plan does not know (rotary base, router); a "+
		"trial runs with "+
		"--mock-data --tokenizer-type NullTokenizer --vocab-size %d --train-iters 10 --lr 1e-4", j.m.Vocab)
	return fmt.Sprintf("%storchrun --nnodes %d --nproc-per-node %d pretrain_gpt.py \\\n%s\n", megatronEnv(j),
		j.hosts, j.devices, f.text())
}

// megatronEnv returns the environment that Megatron requires before Blackwell: one hardware queue, so that
// collectives start in order. Its FSDP requires the opposite.
func megatronEnv(j *job) string {
	if j.s.Zero < 2 && j.s.TP*j.s.CP > 1 {
		return "CUDA_DEVICE_MAX_CONNECTIONS=1 "
	}
	return ""
}

func megatronModel(j *job, f *flags) {
	m := &j.m
	f.add("num-layers", m.Layers)
	f.add("hidden-size", m.Hidden)
	f.add("ffn-hidden-size", cmp.Or(m.FFN, m.Experts.FFN))
	megatronAttention(j, f)
	f.add("seq-length", j.w.Seq)
	f.add("max-position-embeddings", max(m.Positions, j.w.Seq))
	if m.Positions == 0 {
		f.add("position-embedding-type", "rope")
	} else if m.Positions < j.w.Seq {
		j.note("sequences of %d: the model's table of positions has %d rows, here it grows", j.w.Seq, m.Positions)
	}
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
	if !m.Tied {
		f.on("untie-embeddings-and-output-weights")
	}
	if !j.w.Software.Dropout {
		f.add("attention-dropout", 0)
		f.add("hidden-dropout", 0)
	}
}

func megatronAttention(j *job, f *flags) {
	m := &j.m
	f.add("num-attention-heads", m.Heads)
	groups := m.Heads
	if m.KVHeads > 0 && m.KVHeads != m.Heads && !m.MLA() {
		groups = m.KVHeads
		f.on("group-query-attention")
		f.add("num-query-groups", groups)
	}
	if groups%j.s.TP != 0 {
		j.refuse("tp %d: Megatron wants a divisor of the %d heads of keys: pin tp to one", j.s.TP, groups)
	}
	if m.HeadDim > 0 {
		f.add("kv-channels", m.HeadDim)
	}
	if m.Window > 0 && m.Window < j.w.Seq {
		f.add("window-size", fmt.Sprintf("%d,0", m.Window-1)) // keys before the query's own position
	}
	if l := &m.Latent; m.MLA() {
		f.on("multi-latent-attention")
		f.on("qk-layernorm") // of the low-rank projections
		f.add("kv-lora-rank", l.KVRank)
		if l.QRank > 0 {
			f.add("q-lora-rank", l.QRank)
		}
		f.add("qk-head-dim", l.Nope)
		f.add("qk-pos-emb-head-dim", l.Rope)
		f.add("v-head-dim", l.V)
	}
}

func megatronExperts(j *job, f *flags) {
	e, s := &j.m.Experts, &j.s
	if !j.m.MoE() {
		return
	}
	f.add("num-experts", e.Count)
	f.add("moe-router-topk", e.TopK)
	f.add("moe-ffn-hidden-size", e.FFN)
	if e.Shared > 0 {
		f.add("moe-shared-expert-intermediate-size", e.Shared)
	}
	if e.Dense > 0 {
		f.add("moe-layer-freq", fmt.Sprintf("'([0]*%d+[1]*%d)'", e.Dense, j.m.Layers-e.Dense))
	}
	f.add("expert-model-parallel-size", s.EP)
	f.add("expert-tensor-parallel-size", s.ETP)
	f.add("moe-token-dispatcher-type", "alltoall")
	if p := j.precision(); p != "fp16" && p != "fp32" && p != "tf32" { // grouped products support only bfloat16
		f.on("moe-grouped-gemm")
	} else if p == "fp16" && s.EP > 1 {
		j.refuse("fp16 with ep %d: Megatron spreads experts in bf16 only: plan with --precision bf16 or pin ep=1",
			s.EP)
	}
}

func megatronTensor(j *job, f *flags) {
	s := &j.s
	f.add("tensor-model-parallel-size", s.TP)
	switch {
	case s.TP > 1 && s.Sequence:
		f.on("sequence-parallel")
	case s.TP > 1 && j.m.MoE():
		f.on("sequence-parallel")
		j.note("tensor without sequence parallelism: Megatron trains experts with both only")
	}
	f.add("context-parallel-size", s.CP)
	if s.CP == 1 {
		return
	}
	f.add("cp-comm-type", map[string]string{"": "p2p", "ring": "p2p", "gather": "all_gather",
		"ulysses": "a2a"}[s.Context])
	if j.w.Seq%(2*s.CP) != 0 {
		j.refuse("sequences of %d with cp %d: Megatron wants a multiple of %d: pin another cp", j.w.Seq, s.CP,
			2*s.CP)
	}
}

func megatronRecompute(j *job, f *flags) {
	switch r := j.s.Recompute; r.Mode() {
	case strategy.Full:
		f.add("recompute-granularity", "full")
		f.add("recompute-method", "block")
		n := r.Layers()
		if n < 0 {
			n = slices.Max(j.chunks())
		}
		f.add("recompute-num-layers", n)
	case strategy.Selective:
		f.add("recompute-granularity", "selective")
		f.add("recompute-modules", "core_attn")
	}
}

func megatronPrecision(j *job, f *flags) {
	switch p := j.precision(); p {
	case "bf16", "fp16":
		f.on(p)
	case "fp32": // the default without a flag
	case "fp8":
		f.on("bf16")
		f.add("fp8-format", "hybrid")
	case "mxfp8":
		f.on("bf16")
		f.add("fp8-format", "e4m3")
		f.add("fp8-recipe", "mxfp8")
	case "nvfp4":
		f.on("bf16")
		f.add("fp4-format", "e2m1")
	default:
		j.note("precision %s: Megatron has no flag for it, this is fp32: PyTorch's own switch is "+
			"torch.backends.cuda.matmul.allow_tf32", p)
	}
}
