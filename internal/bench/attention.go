package bench

import (
	"fmt"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// AttentionConfig is causal attention, forward and backward.
type AttentionConfig struct {
	Seq, Heads, HeadDim, Threads, Runs int
}

// AttentionResult is the time and memory of attention.
type AttentionResult struct {
	Seq     int `json:"seq"`
	Heads   int `json:"heads"`
	HeadDim int `json:"head_dim"`
	Timing
	// PeakBytes is operands, results and all intermediates; SquareBytes is what the scores alone would need.
	PeakBytes   int `json:"peak_bytes"`
	SquareBytes int `json:"scores_bytes"`
}

// String prints the result in a line.
func (r AttentionResult) String() string {
	return fmt.Sprintf("attention seq=%d heads=%d dim=%d: best %.1f ms, median %.1f ms, peak %.1f MB (%.1f "+
		"kB a token); the scores alone would be %.1f MB",
		r.Seq, r.Heads, r.HeadDim, r.BestMS, r.MedianMS, float64(r.PeakBytes)/1e6,
		float64(r.PeakBytes)/float64(r.Seq)/1e3, float64(r.SquareBytes)/1e6)
}

// Attention times the gradient of attention with respect to all operands.
func Attention(c AttentionConfig) (AttentionResult, error) {
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	t := op.Type{DType: array.F32, Shape: array.Shape{1, c.Seq, c.Heads, c.HeadDim}}
	p, err := galley.Trace("attention", []op.Type{t, t, t, t}, func(in []*op.Tensor) []*op.Tensor {
		y := op.Attention(in[0], in[1], in[2], op.AttentionConfig{Causal: true})
		return op.Grad([]*op.Tensor{y}, in[3:], in[:3])
	})
	if err != nil {
		return AttentionResult{}, err
	}
	e, err := galley.Compile(d, p, galley.Options{})
	if err != nil {
		return AttentionResult{}, err
	}
	args := []array.Array{random(d, t, 1), random(d, t, 2), random(d, t, 3), random(d, t, 4)}
	timing, err := measure(1, c.Runs, func() error { _, err := e.Run(args); return err })
	if err != nil {
		return AttentionResult{}, err
	}
	return AttentionResult{
		Seq: c.Seq, Heads: c.Heads, HeadDim: c.HeadDim, Timing: timing,
		PeakBytes: e.Memory().Peak(), SquareBytes: 4 * c.Heads * c.Seq * c.Seq,
	}, nil
}
