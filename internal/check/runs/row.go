package runs

import (
	"strconv"
	"strings"
)

// runRow is one published training run. A number that the source does not give is null, and so nil here.
type runRow struct {
	ID        string      `json:"id"`
	Source    string      `json:"source"`
	Model     runModel    `json:"model"`
	Cluster   runCluster  `json:"cluster"`
	Strategy  runStrategy `json:"strategy"`
	Measured  runMeasured `json:"measured"`
	Precision string      `json:"precision"`
	Framework string      `json:"framework"`
	Notes     string      `json:"notes"`
	// wrong is why the row could not be parsed, unread the fields that are not used here.
	wrong  error
	unread []string
}

type runModel struct {
	Name     string  `json:"name"`
	Layers   *int    `json:"layers"`
	Hidden   *int    `json:"hidden"`
	Heads    *int    `json:"heads"`
	KVHeads  *int    `json:"kv_heads"`
	HeadDim  *int    `json:"head_dim"`
	FFN      *int    `json:"ffn"`
	Vocab    *int    `json:"vocab"`
	Seq      *int    `json:"seq_len"`
	MLP      string  `json:"mlp"`
	Params   float64 `json:"n_params"`
	MoE      *runMoE `json:"moe"`
	QRank    *int    `json:"q_lora_rank"`
	KVRank   *int    `json:"kv_lora_rank"`
	Nope     *int    `json:"qk_nope_dim"`
	Rope     *int    `json:"qk_rope_dim"`
	VDim     *int    `json:"v_head_dim"`
	Tied     bool    `json:"tied"`
	Position *int    `json:"positions"`
	// Window is the keys that a query attends to; of every WindowEvery layers one attends to all.
	Window      *int `json:"sliding_window"`
	WindowEvery *int `json:"full_attention_every"`
	// Attention is MLA where it is latent.
	Attention string `json:"attention"`
}

type runMoE struct {
	Experts     int  `json:"experts"`
	TopK        int  `json:"topk"`
	FFN         *int `json:"moe_ffn"`
	Shared      int  `json:"shared_experts"`
	SharedFFN   *int `json:"shared_ffn"`
	DenseLayers int  `json:"dense_layers"`
}

type runCluster struct {
	GPU     string    `json:"gpu"`
	Memory  *float64  `json:"gpu_mem_gb"`
	Peak    *float64  `json:"peak_tflops_dense_bf16"`
	GPUs    *int      `json:"gpus"`
	PerNode *int      `json:"gpus_per_node"`
	Intra   *float64  `json:"intra_bw_GBps"`
	Inter   *float64  `json:"inter_bw_GBps_per_gpu"`
	HBM     *float64  `json:"hbm_bw_GBps"`
	Nodes   []runNode `json:"nodes"`
	Note    string    `json:"note"`
}

// runNode is one host of a mixed cluster.
type runNode struct {
	GPU   string  `json:"gpu"`
	GPUs  *int    `json:"gpus"`
	Inter float64 `json:"inter_Gbps"`
	Intra float64 `json:"intra_Gbps"`
}

type runStrategy struct {
	DP        *int     `json:"dp"`
	TP        *int     `json:"tp"`
	PP        *int     `json:"pp"`
	CP        *int     `json:"cp"`
	EP        *int     `json:"ep"`
	ETP       *int     `json:"etp"`
	VPP       *int     `json:"vpp"`
	Zero      *int     `json:"zero"`
	Micro     *float64 `json:"micro_batch"`
	Batch     *float64 `json:"global_batch"`
	Recompute *string  `json:"recompute"`
	SP        *bool    `json:"sp"`
	Schedule  string   `json:"schedule"`
	Partition []int    `json:"layer_partition"`
	Shard     anyCount `json:"zero1_group"`
	FSDP      *int     `json:"ici_fsdp"`
	Reduce    string   `json:"fsdp_mixed_precision"`
	Offload   bool     `json:"activation_cpu_offload"`
	Accum     *float64 `json:"grad_accum"`
	Context   string   `json:"cp_kind"`
}

// anyCount is a number, a number in quotes, or a word such as all, which is 0.
type anyCount int

// UnmarshalJSON never fails: anything but a number is a word.
func (c *anyCount) UnmarshalJSON(text []byte) error {
	n, err := strconv.Atoi(strings.Trim(string(text), `"`))
	if err == nil {
		*c = anyCount(n)
	}
	return nil
}

type runMeasured struct {
	Step      *float64 `json:"step_time_s"`
	Tokens    *float64 `json:"tokens_per_s"`
	PerGPU    *float64 `json:"tokens_per_s_per_gpu"`
	TFLOPS    *float64 `json:"tflops_per_gpu"`
	Kind      string   `json:"tflops_kind"`
	MFU       *float64 `json:"mfu"`
	HFU       *float64 `json:"hfu"`
	Samples   *float64 `json:"samples_per_s"`
	Memory    *float64 `json:"peak_mem_gb"`
	Unit      string   `json:"peak_mem_unit"`
	OOM       *bool    `json:"oom"`
	FailedOOM *bool    `json:"failed_or_oom"`
}

// failed reports whether the run ran out of memory, and whether the source says anything about that.
func (m *runMeasured) failed() (oom, said bool) {
	for _, f := range []*bool{m.OOM, m.FailedOOM} {
		if f != nil {
			oom, said = oom || *f, true
		}
	}
	return oom, said
}

// origin returns the source that a row is reported under: the beginning of its id, or its source's first
// words.
func (r *runRow) origin() string {
	if head, _, ok := strings.Cut(r.ID, "-"); ok && head != "" {
		return head
	}
	if r.ID != "" {
		return r.ID
	}
	f := strings.Fields(r.Source)
	if len(f) == 0 {
		return "unnamed"
	}
	return f[0]
}
