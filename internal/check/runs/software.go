package runs

import (
	"regexp"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/plan"
)

// besides are words of a label that refer to something other than products: "bf16 + fp32 grad accum" is bf16.
var besides = []string{"accum", "grad", "master", "optim", "reduc", "comm", "gather", "param", "state",
	"moment",
	"loss", "cache", "storage", "adam", "norm", "logit", "router", "embedding"}

// productLabel returns the part of a label that refers to products.
func productLabel(s string) string {
	var kept []string
	s = strings.NewReplacer(" with ", ";", " and ", ";", " plus ", ";").Replace(s)
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("+,;/()&", r) }) {
		other := strings.ContainsAny(part, "48126") && containsAny(part, besides)
		if !other && strings.TrimSpace(part) != "" {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, " ")
}

func containsAny(s string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}

// readPrecision records an assumption if a label names no format for products.
func (c *runCase) readPrecision() {
	format, said := runPrecision(c.row.Precision)
	if !said && c.row.Precision != "" {
		c.assume("precision %q is %s", c.row.Precision, format)
	}
	c.workload.Precision = format
}

// runPrecision returns the format of a row's products: the narrowest that the label names for them; bf16 if
// it names none, and then said is false.
func runPrecision(label string) (format string, said bool) {
	s := strings.ReplaceAll(productLabel(strings.ToLower(label)), "float", "fp")
	switch {
	case strings.Contains(s, "nvfp4"), strings.Contains(s, "fp4"):
		return "nvfp4", true
	case strings.Contains(s, "mx"):
		return "mxfp8", true
	case containsAny(s, []string{"fp8", "e4m3", "e5m2"}):
		return "fp8", true
	case strings.Contains(s, "bf16"), strings.Contains(s, "bfp16"):
		return "bf16", true
	case strings.Contains(s, "fp16"), strings.Contains(s, "half"):
		return "fp16", true
	case strings.Contains(s, "tf32"):
		return "tf32", true
	case strings.Contains(s, "fp32"), strings.Contains(s, "single"):
		return "fp32", true
	}
	return "bf16", false
}

// eagerIssue is the time to launch a layer's forward pass in eager PyTorch: about 80 ops at about 10 µs.
const eagerIssue = 0.8e-3

// eagerBytes is the factor by which element-wise ops of eager PyTorch move more bytes than fused kernels.
const eagerBytes = 2.5

// firstBytes is the same of Megatron's first releases, which fused only what was requested: mask,
// softmax, biases and dropout by themselves read and write 141 hidden states of a GPT-2 layer in place of
// 104.
const firstBytes = 1.4

// runSoftware returns the properties of a framework at its time, from its name and the notes.
func runSoftware(r *runRow) plan.Software {
	f, notes := strings.ToLower(r.Framework), strings.ToLower(r.Notes)
	var s plan.Software
	switch {
	case strings.Contains(f, "fsdp"), strings.Contains(f, "torchtitan"), strings.Contains(f, "composer"):
		s = shardedSoftware(r, f, notes)
	case strings.Contains(f, "internevo"):
		s = internEvo(r)
	case classicMegatron(f) && !fusedTime(r):
		s = plan.Software{Unfused: true, Dropout: true, Sync: true, SyncSend: true, LogitBytes: 12,
			Issue: eagerIssue}
		if strings.Contains(f, "megatron v1.") {
			s.Elementwise = firstBytes
		}
		if strings.Contains(strings.ToLower(r.Precision), "fp16") {
			s.GradBytes, s.ReduceBytes = 2, 2
		}
		if strings.Contains(f, "deepspeed") {
			deepSpeed(r, &s)
		}
	case compiledWhole(f):
		s = plan.Software{HideTP: 0.5} // its compiler splits products to overlap them with their collectives
	case modernMegatron(f), classicMegatron(f):
		s = plan.Software{Elementwise: 1.3, Issue: eagerIssue, HideTP: 0.5, ScaleOnce: true,
			OncePerHost: strings.Contains(f, "bridge")}
		if r.pipelinesExperts() {
			s.HideEP = 0.5
		}
		if strings.Contains(f, "nemo megatron") && r.Strategy.Recompute != nil &&
			*r.Strategy.Recompute == "selective" {
			s.Unfused, s.Dropout = true, true // before fused attention it had recomputation of attention
		}
	}
	if strings.Contains(strings.ToLower(r.Strategy.Schedule)+notes, "dualpipe") {
		s.OncePerHost = true // systems with that schedule also send a token to a host only once (DeepEP)
	}
	if strings.Contains(notes, "flash") {
		s.Unfused = false
	}
	if strings.Contains(notes, "no comm overlap") {
		s.Sync, s.SyncSend, s.Serial, s.HideTP = true, true, true, 0
	}
	if strings.Contains(notes, "fp32_allreduce=true") {
		s.ReduceBytes = 4
	}
	if strings.Contains(notes, "asynctp") {
		s.HideTP = 0.5
	}
	if r.Strategy.Reduce == "PURE" {
		s.ReduceBytes = 2
	}
	return s
}

// pipelinesExperts reports whether a Megatron user would overlap the exchange between experts with the passes
// of other micro-batches: it leaves the host, and the schedule supports it, with several chunks a rank or no
// pipeline.
func (r *runRow) pipelinesExperts() bool {
	s := &r.Strategy
	return value(s.EP) > max(1, value(r.Cluster.PerNode)) && (value(s.VPP) > 1 || value(s.PP) <= 1)
}

// shardedSoftware returns PyTorch's own sharding of parameters (FSDP) and what trains by it. Layers are units
// of their own, embedding and head stay with the root. The loss is torch's cross_entropy on a float32 copy:
// its logits, their log-softmax and the gradient are float32, and the 16-bit logits' block stays with the
// allocator; over a vocabulary that is split (loss_parallel) another float32 tensor is alive, for the
// backward pass adds in a new one (torch/distributed/tensor/parallel/loss.py). DTensor's products keep the
// inputs that they gathered, those fused with the gather (asynctp) do not. AdamW's foreach form has one
// temporary of all tensors. With pipelines torchtitan does not give parameters back between micro-batches
// (parallelize_llama.py), and FSDP sums gradients whole, in the format that they are reduced in, until the
// last one.
func shardedSoftware(r *runRow, f, notes string) plan.Software {
	s := plan.Software{LogitBytes: 14, Eager: 1.15, Elementwise: eagerBytes, Issue: eagerIssue, RootUnit: true,
		StageGathered: true, UpdatePieces: 4,
		KeepGathered: !strings.Contains(notes, "asynctp")}
	if value(r.Strategy.TP) > 1 {
		s.LogitBytes = 18
	}
	titan := strings.Contains(f, "torchtitan")
	if strings.Contains(notes, "compile") || titan && !strings.Contains(notes, "eager") {
		s.Eager, s.Elementwise, s.Issue = 1, 1.2, eagerIssue/2
		if titan && r.month() >= compiledLoss {
			s.LogitBytes = 0
		}
	}
	return s
}

// compiledLoss is the month from which torchtitan compiles the loss with the model (pull request 1033), which
// makes it a fused one.
const compiledLoss = 202504

// month returns the year and month in the name of a row's source, such as 202412; 0 where there is none.
func (r *runRow) month() int {
	n := number(monthly.FindString(r.Source))
	return value(n)
}

var monthly = regexp.MustCompile(`20[12]\d(0[1-9]|1[0-2])`)

// internEvo sends parameters tensor by tensor, and gradients in large buckets as they are, in 16 bits. Its
// optimizers (internlm/solver/optimizer) keep float32 copies: with FSDP, for each shard of a layer, the
// gradient's and AdamW's two temporaries; without, float32 copies of all gradients for their norm, then all
// of them as one block of 16 bits, one of float32, and AdamW's two temporaries, each as long as all
// parameters.
func internEvo(r *runRow) plan.Software {
	s := plan.Software{GatherBucket: 25e6 / float64(max(1, value(r.Strategy.TP))), Elementwise: eagerBytes,
		Issue: eagerIssue, GradBytes: 2, ReduceBytes: 2}
	if value(r.Strategy.Zero) >= 3 {
		s.UpdatePieces, s.RootUnit = 12, true
	} else {
		s.UpdatePieces, s.UpdateBlock = 4, 14
	}
	return s
}

// deepSpeed adds what ZeRO's first stages allocate (deepspeed/runtime). For fp16: all gradients once more in
// the buckets that are reduced, for the allocator does not reuse what a collective may still read; and the
// norm of gradients in double precision, tensor by tensor. For bf16: float32 sums beside the gradients of all
// parameters, and two buckets of the default size to gather. Without ZeRO, fp16 gradients are copied to
// float32 one by one and then to one block. The last stage of its pipeline holds float32 logits as the
// stage's output until the buffer is used again, two micro-batches later; Megatron's loss works in a copy of
// them, which becomes their gradient.
func deepSpeed(r *runRow, s *plan.Software) {
	if value(r.Strategy.Zero) == 3 && r.Model.Hidden != nil {
		s.Bucket = float64(*r.Model.Hidden) * float64(*r.Model.Hidden) // tensor by tensor, a dozen in a layer
	}
	s.CommBuffer = 1e12
	s.LogitBytes, s.HeldLogits = 10, 4
	switch {
	case s.GradBytes != 2:
		s.CommBuffer, s.KeepGrads = 1e9, true
	case r.Strategy.Zero != nil && *r.Strategy.Zero == 0:
		s.UpdatePieces, s.UpdateBlock = 4, 4
	default:
		s.NormBytes = 8
	}
}

// classicMegatron reports whether a framework is Megatron before fused attention and overlapped
// communication, or is built on that: releases without a number, up to 2022.
func classicMegatron(f string) bool {
	return !modernMegatron(f) && (strings.Contains(f, "megatron") || strings.Contains(f, "deepspeed"))
}

// compiledWhole reports whether a framework's compiler sees the whole step.
func compiledWhole(f string) bool {
	return strings.Contains(f, "maxtext") || strings.Contains(f, "pax") || strings.Contains(f, "jax")
}

// modernMegatron reports whether a framework is Megatron with its core of fused kernels, or is built on that.
func modernMegatron(f string) bool {
	return strings.Contains(f, "bridge") || strings.Contains(f, "nemo") || strings.Contains(f, "core") ||
		release.MatchString(f)
}

// release is the number of a Megatron with fused kernels: 0.14, r0.8, 23.07.
var release = regexp.MustCompile(`megatron\S* (v|r)?(0\.\d+|2\d\.\d+)`)
