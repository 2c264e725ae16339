package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Workload is a training job: a model, and the batch of one step.
type Workload struct {
	Model Model `yaml:"model" json:"model"`
	// Batch is the number of sequences of one step on all devices together, Seq the number of tokens of each.
	Batch int `yaml:"batch" json:"batch"`
	Seq   int `yaml:"seq" json:"seq"`
	// Precision is the format of products: bf16 (the default), fp16, fp32, fp8, mxfp8 or nvfp4. Formats below 16
	// bits apply to the layers' products only; everything else is bf16.
	Precision string `yaml:"precision,omitempty" json:"precision,omitempty"`
	// Software describes the training program. The zero value is a modern one: fused attention and loss, and
	// collectives of data parallelism that overlap with computation.
	Software Software `yaml:"software,omitempty" json:"software,omitzero"`
}

// Software describes how a training program is built, as far as it affects time and memory.
type Software struct {
	// Unfused attention writes its scores to memory, as programs before FlashAttention do.
	Unfused bool `yaml:"unfused,omitempty" json:"unfused,omitempty"`
	// Dropout after attention, feed-forward layers and embeddings.
	Dropout bool `yaml:"dropout,omitempty" json:"dropout,omitempty"`
	// Sync reduces gradients after the last backward pass instead of during it.
	Sync bool `yaml:"sync,omitempty" json:"sync,omitempty"`
	// SyncSend makes messages between pipeline stages blocking.
	SyncSend bool `yaml:"sync_send,omitempty" json:"sync_send,omitempty"`
	// Serial overlaps nothing with computation, not even what every program hides: rings of keys, inputs
	// gathered again.
	Serial bool `yaml:"serial,omitempty" json:"serial,omitempty"`
	// HideTP is the fraction of tensor-parallel communication that overlaps with products, 0 to 1, as far as
	// they last.
	HideTP float64 `yaml:"hide_tp,omitempty" json:"hide_tp,omitempty"`
	// HideEP is the same for the exchange between experts, overlapped with other micro-batches. Schedules that
	// pair forward and backward passes hide it anyway.
	HideEP float64 `yaml:"hide_ep,omitempty" json:"hide_ep,omitempty"`
	// OncePerHost sends a token to a host once, however many of its experts are there, as DeepEP does.
	OncePerHost bool `yaml:"once_per_host,omitempty" json:"once_per_host,omitempty"`
	// ScaleOnce keeps the 8-bit copy of an operand for all products that read it; otherwise each makes its own.
	ScaleOnce bool `yaml:"scale_once,omitempty" json:"scale_once,omitempty"`
	// GradBytes is the size of an element of an accumulated gradient; 0 means 4.
	GradBytes int `yaml:"grad_bytes,omitempty" json:"grad_bytes,omitempty"`
	// ReduceBytes is the size of a gradient's element in collectives; 0 means GradBytes.
	ReduceBytes int `yaml:"reduce_bytes,omitempty" json:"reduce_bytes,omitempty"`
	// Bucket is the number of gradient elements that are reduced at once; 0 means Megatron's default: 40
	// million, or a million for each replica.
	Bucket float64 `yaml:"bucket,omitempty" json:"bucket,omitempty"`
	// GatherBucket is the number of parameter elements that are gathered at once after an update; 0 means as
	// many as of gradients.
	GatherBucket float64 `yaml:"gather_bucket,omitempty" json:"gather_bucket,omitempty"`
	// LogitBytes is the number of bytes that the loss keeps of each logit at its peak: 12 if it consists of
	// plain ops, 16-bit and float32 copies of both logits and gradients; 0 is a fused loss, with 16-bit copies
	// alone.
	LogitBytes int `yaml:"logit_bytes,omitempty" json:"logit_bytes,omitempty"`
	// HeldLogits is the number of bytes of each logit that are kept until the next micro-batch's logits are
	// computed, if there is one.
	HeldLogits int `yaml:"held_logits,omitempty" json:"held_logits,omitempty"`
	// CommBuffer is the number of gradient elements, at most all of them, that have separate buffers when they
	// are reduced after the passes.
	CommBuffer float64 `yaml:"comm_buffer,omitempty" json:"comm_buffer,omitempty"`
	// KeepGrads means that 16-bit gradients of all parameters, not only of one layer, are kept beside their
	// float32 sums.
	KeepGrads bool `yaml:"keep_grads,omitempty" json:"keep_grads,omitempty"`
	// KeepGathered means that with sequence parallelism products keep their gathered inputs instead of gathering
	// them again.
	KeepGathered bool `yaml:"keep_gathered,omitempty" json:"keep_gathered,omitempty"`
	// RootUnit means that embedding and head are one unit of ZeRO-3, gathered during the whole step.
	RootUnit bool `yaml:"root_unit,omitempty" json:"root_unit,omitempty"`
	// StageGathered means that with pipelines ZeRO-3 gathers a stage's parameters once a step, and accumulates
	// its gradients unsharded until the last micro-batch.
	StageGathered bool `yaml:"stage_gathered,omitempty" json:"stage_gathered,omitempty"`
	// UpdatePieces and UpdateBlock are the bytes that the update takes for each parameter that a device updates,
	// besides its states, for gradients in float32 and temporaries of the optimizer: tensor by tensor, in the
	// memory of activations, and in blocks of all tensors together, which need memory of their own.
	UpdatePieces int `yaml:"update_pieces,omitempty" json:"update_pieces,omitempty"`
	UpdateBlock  int `yaml:"update_block,omitempty" json:"update_block,omitempty"`
	// NormBytes is the size per element of the largest tensor while the norm of gradients is computed.
	NormBytes int `yaml:"norm_bytes,omitempty" json:"norm_bytes,omitempty"`
	// Eager is the factor of activation memory of an eager framework relative to fused kernels; 0 means 1.
	Eager float64 `yaml:"eager,omitempty" json:"eager,omitempty"`
	// Elementwise is the factor of bytes that element-wise ops move relative to fused kernels; 0 means 1.
	Elementwise float64 `yaml:"elementwise,omitempty" json:"elementwise,omitempty"`
	// SumGrads means that a pass of its own adds the gradients of a micro-batch to those of the ones before it;
	// otherwise the products do.
	SumGrads bool `yaml:"sum_grads,omitempty" json:"sum_grads,omitempty"`
	// Issue is the seconds that the host takes to launch the ops of one layer's forward pass; the backward pass
	// takes twice that. Devices that are done sooner wait. 0 means a program that is launched as a whole.
	Issue float64 `yaml:"issue,omitempty" json:"issue,omitempty"`
	// FullHead means that logits are computed in full on every member of a tensor-parallel group.
	FullHead bool `yaml:"full_head,omitempty" json:"full_head,omitempty"`
}

// precisions lists the formats that a workload may name, each with the format whose rate its products run at
// and the bytes per stored element.
var precisions = map[string]struct {
	rate  string
	bytes int
}{
	"": {"bf16", 2}, "bf16": {"bf16", 2}, "fp16": {"fp16", 2}, "fp32": {"fp32", 4}, "tf32": {"tf32", 4},
	"fp8": {"fp8", 2}, "mxfp8": {"mxfp8", 2}, "nvfp4": {"nvfp4", 2},
}

// Check returns an error if the workload is impossible.
func (w *Workload) Check() error {
	if err := w.Model.Check(); err != nil {
		return err
	}
	if w.Batch < 1 || w.Seq < 1 || w.Batch > maxBatch || w.Seq > maxBatch {
		return fmt.Errorf("workload: got %d sequences of %d tokens, want 1 to %d of each", w.Batch, w.Seq, maxBatch)
	}
	if most := w.Model.MostTokens(); most > 0 && w.Seq > most {
		return fmt.Errorf("workload: sequences of %d tokens: %s has learned positions for %d: want --seq %d or "+
			"less",
			w.Seq, w.Model.Name, most, most)
	}
	if _, ok := precisions[w.Precision]; !ok {
		return fmt.Errorf("workload: precision %q: want %s", w.Precision,
			strings.Join([]string{"bf16", "fp16", "fp32", "tf32", "fp8", "mxfp8", "nvfp4"}, ", "))
	}
	return nil
}

// Short reports whether products run in 8 bits or less.
func (w *Workload) Short() bool {
	return slices.Contains([]string{"fp8", "mxfp8", "nvfp4"}, w.Precision)
}

// Tokens returns the number of tokens of one step.
func (w *Workload) Tokens() float64 { return float64(w.Batch) * float64(w.Seq) }

func (s *Software) gradBytes() float64 {
	if s.GradBytes == 0 {
		return 4
	}
	return float64(s.GradBytes)
}

func (s *Software) reduceBytes() float64 {
	if s.ReduceBytes == 0 {
		return s.gradBytes()
	}
	return float64(s.ReduceBytes)
}

func (s *Software) gatherBucket(replicas int) float64 {
	if s.GatherBucket > 0 {
		return s.GatherBucket
	}
	return s.bucket(replicas)
}

func (s *Software) bucket(replicas int) float64 {
	if s.Bucket > 0 {
		return s.Bucket
	}
	return max(40e6, 1e6*float64(replicas))
}
