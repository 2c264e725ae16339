package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Workload is what is to be trained: a model, and what one step of it takes in.
type Workload struct {
	Model Model `yaml:"model" json:"model"`
	// Batch is the sequences of one step on all devices together, Seq the tokens of each.
	Batch int `yaml:"batch" json:"batch"`
	Seq   int `yaml:"seq" json:"seq"`
	// Precision is the format of products: bf16 (the default), fp16, fp32, fp8, mxfp8 or nvfp4. Formats below 16
	// bits are those of the layers' products only; everything else is bf16.
	Precision string `yaml:"precision,omitempty" json:"precision,omitempty"`
	// Software is how the program that trains it is built. The zero value is a modern one: fused attention and
	// loss, collectives of data parallelism under the computation.
	Software Software `yaml:"software,omitempty" json:"software,omitzero"`
}

// Software is how a training program is built, as far as time and memory show it.
type Software struct {
	// Unfused attention writes its scores to memory: programs before FlashAttention.
	Unfused bool `yaml:"unfused,omitempty" json:"unfused,omitempty"`
	// Dropout after attention, feed-forward layers and embeddings.
	Dropout bool `yaml:"dropout,omitempty" json:"dropout,omitempty"`
	// Sync reduces gradients after the last backward pass in place of under it.
	Sync bool `yaml:"sync,omitempty" json:"sync,omitempty"`
	// SyncSend waits for what pipeline stages send each other.
	SyncSend bool `yaml:"sync_send,omitempty" json:"sync_send,omitempty"`
	// Serial runs nothing beside computation, not even what every program hides: keys that go round, inputs
	// gathered again.
	Serial bool `yaml:"serial,omitempty" json:"serial,omitempty"`
	// HideTP is the part of tensor-parallel communication that runs under products, 0 to 1, as far as they last.
	HideTP float64 `yaml:"hide_tp,omitempty" json:"hide_tp,omitempty"`
	// HideEP is the same of the exchange between experts, under other micro-batches. Schedules that join forward
	// and backward passes in pairs hide it by themselves.
	HideEP float64 `yaml:"hide_ep,omitempty" json:"hide_ep,omitempty"`
	// OncePerHost sends a token to a host once, however many of its experts are there, as DeepEP does.
	OncePerHost bool `yaml:"once_per_host,omitempty" json:"once_per_host,omitempty"`
	// ScaleOnce keeps the short copy of an operand for all products that read it; otherwise each makes its own.
	ScaleOnce bool `yaml:"scale_once,omitempty" json:"scale_once,omitempty"`
	// GradBytes is what an element of an accumulated gradient takes; 0 means 4.
	GradBytes int `yaml:"grad_bytes,omitempty" json:"grad_bytes,omitempty"`
	// ReduceBytes is what an element of a gradient takes on the wire; 0 means GradBytes.
	ReduceBytes int `yaml:"reduce_bytes,omitempty" json:"reduce_bytes,omitempty"`
	// Bucket is how many elements of gradients are reduced at once; 0 means what Megatron does: 40 million, or a
	// million for each replica.
	Bucket float64 `yaml:"bucket,omitempty" json:"bucket,omitempty"`
	// GatherBucket is how many elements of parameters are gathered at once after an update; 0 means as many as
	// of gradients.
	GatherBucket float64 `yaml:"gather_bucket,omitempty" json:"gather_bucket,omitempty"`
	// LogitBytes is what the loss keeps of each logit at its peak: 12 where it is made of plain ops, 16-bit and
	// float32 copies of both logits and gradients; 0 is a fused loss, with 16-bit copies alone.
	LogitBytes int `yaml:"logit_bytes,omitempty" json:"logit_bytes,omitempty"`
	// HeldLogits is the bytes of each logit that stay until the next micro-batch's are made, where there is
	// another.
	HeldLogits int `yaml:"held_logits,omitempty" json:"held_logits,omitempty"`
	// CommBuffer is how many elements of gradients, all of them at most, are in buffers of their own
	// when they are reduced after the passes.
	CommBuffer float64 `yaml:"comm_buffer,omitempty" json:"comm_buffer,omitempty"`
	// KeepGrads means that 16-bit gradients of all parameters are beside their float32 sums, not those of one
	// layer.
	KeepGrads bool `yaml:"keep_grads,omitempty" json:"keep_grads,omitempty"`
	// KeepGathered means that with sequence parallelism products keep their inputs as gathered, in place of
	// gathering them again.
	KeepGathered bool `yaml:"keep_gathered,omitempty" json:"keep_gathered,omitempty"`
	// RootUnit means that embedding and head are one unit of ZeRO-3, gathered through the whole step.
	RootUnit bool `yaml:"root_unit,omitempty" json:"root_unit,omitempty"`
	// StageGathered means that with pipelines ZeRO-3 gathers a stage's parameters once a step, and sums its
	// gradients whole until the last micro-batch.
	StageGathered bool `yaml:"stage_gathered,omitempty" json:"stage_gathered,omitempty"`
	// UpdatePieces and UpdateBlock are bytes that the update takes for each parameter that a device updates
	// besides its states, gradients in float32 and what the optimizer computes with: tensor by tensor, where
	// activations were, and in blocks of all tensors together, which fit in nothing that is free.
	UpdatePieces int `yaml:"update_pieces,omitempty" json:"update_pieces,omitempty"`
	UpdateBlock  int `yaml:"update_block,omitempty" json:"update_block,omitempty"`
	// NormBytes is what an element of the largest tensor takes while the norm of gradients is computed.
	NormBytes int `yaml:"norm_bytes,omitempty" json:"norm_bytes,omitempty"`
	// Eager is how much more an eager framework keeps of a layer's activations than fused kernels would; 0 means
	// 1.
	Eager float64 `yaml:"eager,omitempty" json:"eager,omitempty"`
	// Elementwise is how many times as many bytes as fused kernels the element-wise ops move; 0 means 1.
	Elementwise float64 `yaml:"elementwise,omitempty" json:"elementwise,omitempty"`
	// Issue is seconds that the host takes to start the ops of one layer's forward pass; the backward pass takes
	// twice that. Devices that are done sooner wait. 0 is a program that is started as a whole.
	Issue float64 `yaml:"issue,omitempty" json:"issue,omitempty"`
	// FullHead means that logits are computed in full on every member of a tensor-parallel group.
	FullHead bool `yaml:"full_head,omitempty" json:"full_head,omitempty"`
}

// precisions are the formats that a workload may name, each with the format whose rate its products run at
// and the bytes of what is kept.
var precisions = map[string]struct {
	rate  string
	bytes int
}{
	"": {"bf16", 2}, "bf16": {"bf16", 2}, "fp16": {"fp16", 2}, "fp32": {"fp32", 4}, "tf32": {"tf32", 4},
	"fp8": {"fp8", 2}, "mxfp8": {"mxfp8", 2}, "nvfp4": {"nvfp4", 2},
}

// Check reports what is impossible about the workload.
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

// Tokens returns how many tokens one step takes in.
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
