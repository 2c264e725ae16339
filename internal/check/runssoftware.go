package check

import (
	"regexp"
	"strings"

	"github.com/galley-ml/galley/internal/plan"
)

// runPrecision is the format that a row's products run in.
func runPrecision(s string) string {
	s = strings.ToLower(s)
	switch {
	case strings.Contains(s, "nvfp4"), strings.Contains(s, "fp4"):
		return "nvfp4"
	case strings.Contains(s, "mx"):
		return "mxfp8"
	case strings.Contains(s, "fp8"):
		return "fp8"
	case strings.Contains(s, "fp16"):
		return "fp16"
	case strings.Contains(s, "fp32"):
		return "fp32"
	}
	return "bf16"
}

// eagerIssue is a layer's forward pass as PyTorch starts it op by op: about 80 of them at about 10 µs.
const eagerIssue = 0.8e-3

// eagerBytes is how many times the bytes of fused kernels element-wise ops of eager PyTorch move.
const eagerBytes = 2.5

// firstBytes is the same of Megatron's first releases, which fused only where they were told to: mask, softmax, biases and dropout by
// themselves read and write 141 hidden states of a GPT-2 layer in place of 104.
const firstBytes = 1.4

// runSoftware is what a framework of its time does, as far as its name and the notes tell.
func runSoftware(r *runRow) plan.Software {
	f, notes := strings.ToLower(r.Framework), strings.ToLower(r.Notes)
	var s plan.Software
	switch {
	case strings.Contains(f, "fsdp"), strings.Contains(f, "torchtitan"), strings.Contains(f, "composer"):
		s = plan.Software{LogitBytes: 12, Eager: 1.15, Elementwise: eagerBytes, Issue: eagerIssue}
		if strings.Contains(notes, "compile") || strings.Contains(f, "torchtitan") && !strings.Contains(notes, "eager") {
			s.Eager, s.Elementwise, s.Issue = 1, 1.2, eagerIssue/2
		}
	case strings.Contains(f, "internevo"):
		// Parameters are sent tensor by tensor, gradients in large buckets as they are.
		s = plan.Software{GatherBucket: 25e6 / float64(max(1, value(r.Strategy.TP))), ReduceBytes: 2, Elementwise: eagerBytes, Issue: eagerIssue}
	case classicMegatron(f):
		s = plan.Software{Unfused: true, Dropout: true, Sync: true, SyncSend: true, LogitBytes: 12, Issue: eagerIssue}
		if strings.Contains(f, "deepspeed") {
			s.CommBuffer = 1e9 // two buckets of its default size
			if value(r.Strategy.Zero) == 3 && r.Model.Hidden != nil {
				s.Bucket = float64(*r.Model.Hidden) * float64(*r.Model.Hidden) // tensor by tensor, a dozen in a layer
			}
		}
		if strings.Contains(f, "megatron v1.") {
			s.Elementwise = firstBytes
		}
		if strings.Contains(strings.ToLower(r.Precision), "fp16") {
			s.GradBytes, s.ReduceBytes = 2, 2
		}
	case compiledWhole(f):
		s = plan.Software{HideTP: 0.5} // its compiler cuts products up to run beside their collectives
	case modernMegatron(f):
		s = plan.Software{Elementwise: 1.3, Issue: eagerIssue, HideTP: 0.5, ScaleOnce: true, OncePerHost: strings.Contains(f, "bridge")}
		if strings.Contains(f, "nemo megatron") && r.Strategy.Recompute != nil && *r.Strategy.Recompute == "selective" {
			s.Unfused, s.Dropout = true, true // computing attention again was what it had before fused attention
		}
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

// classicMegatron is Megatron before it had fused attention and overlapped communication, and what was built on it: releases
// without a number, of the years to 2022.
func classicMegatron(f string) bool {
	return !modernMegatron(f) && (strings.Contains(f, "megatron") || strings.Contains(f, "deepspeed"))
}

// compiledWhole is a framework whose compiler sees the whole step.
func compiledWhole(f string) bool {
	return strings.Contains(f, "maxtext") || strings.Contains(f, "pax") || strings.Contains(f, "jax")
}

// modernMegatron is Megatron since it has a core with fused kernels, and what is built on that.
func modernMegatron(f string) bool {
	return strings.Contains(f, "bridge") || strings.Contains(f, "nemo") || strings.Contains(f, "core") || release.MatchString(f)
}

// release is the number of a Megatron with fused kernels: 0.14, r0.8, 23.07.
var release = regexp.MustCompile(`megatron\S* (v|r)?(0\.\d+|2\d\.\d+)`)
