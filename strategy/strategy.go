package strategy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Strategy is how a training step is spread over devices. The zero value is one device. Degrees multiply; all
// but EP, which folds into DP: the devices of DP/EP groups share experts.
type Strategy struct {
	// DP is data parallel: the batch is split. TP is tensor parallel: heads, inner widths and the vocabulary
	// are. PP is pipeline parallel: the layers are. CP is context parallel: the sequence is. EP is expert
	// parallel. 0 means 1.
	DP, TP, PP, CP, EP int
	// Zero splits over the data axes: 1 the optimizer's memory, 2 the sums of gradients, too, 3 the parameters,
	// too.
	Zero int
	// Schedule is the name of a pipeline schedule, or the text of one; empty is 1f1b, or interleaved where VPP
	// is more than
	// 1. VPP is how many stages a device has in interleaved ones; 0 means what the schedule has.
	Schedule string
	VPP      int
	// Micro is how many micro-batches a step has: gradients are summed over them. 0 means PP, or what a
	// schedule's text has.
	Micro int
	// Layers is how many layers each stage has; nil spreads them evenly.
	Layers []int
	// Context is how context parallel attention is computed: ring, the default, or ulysses.
	Context string
	// Sequence splits what lies between layers over the tensor axis, too.
	Sequence bool
	// Recompute is what backward passes compute again: none, selective, full, or full:N for the first N layers
	// of each stage.
	Recompute string
	// AMP computes in bf16 or f16 with f32 weights in the optimizer; off, the default, in the parameters' own
	// dtype.
	AMP string
	// Overlap lets devices compute while they exchange: collectives are waited for when their results are used,
	// and weights that ZeRO splits are gathered ahead of their turn. The numbers are the same.
	Overlap bool
	// Offload is what leaves the devices between updates: none, the default, or optimizer: its memory is kept by
	// the host; optimizer:DIR keeps it in files.
	Offload string
}

// Parse reads degrees, dp=2,tp=2,pp=2, into a strategy.
func Parse(text string) (Strategy, error) {
	var s Strategy
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	seen := map[string]bool{}
	for word := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		n, err := strconv.Atoi(value)
		at := s.degree(name)
		switch {
		case at == nil:
			return s, fmt.Errorf("mesh %q: no axis %q: want dp, tp, pp, cp or ep", text, name)
		case err != nil || n < 1:
			return s, fmt.Errorf("mesh %q: axis %s: got %q, want a number from 1 on", text, name, value)
		case seen[name]:
			return s, fmt.Errorf("mesh %q: axis %s comes twice", text, name)
		}
		*at, seen[name] = n, true
	}
	return s, nil
}

func (s *Strategy) degree(name string) *int {
	return map[string]*int{"dp": &s.DP, "tp": &s.TP, "pp": &s.PP, "cp": &s.CP, "ep": &s.EP}[name]
}

// String is the strategy in short: dp2·tp2·pp2 zero1 1f1b×4.
func (s Strategy) String() string {
	var degrees []string
	for _, name := range []string{"dp", "tp", "pp", "cp", "ep"} {
		if n := *s.degree(name); n > 1 {
			degrees = append(degrees, name+strconv.Itoa(n))
		}
	}
	words := []string{strings.Join(degrees, "·")}
	if degrees == nil {
		words[0] = "one device"
	}
	add := func(use bool, word string) {
		if use {
			words = append(words, word)
		}
	}
	add(s.Zero > 0, fmt.Sprintf("zero%d", s.Zero))
	add(s.PP > 1, s.scheduleName())
	add(s.VPP > 1, fmt.Sprintf("vpp%d", s.VPP))
	add(s.Micro > 1, fmt.Sprintf("×%d", s.Micro))
	add(s.CP > 1, s.Context)
	add(s.Sequence, "sp")
	add(s.Overlap, "overlap")
	add(s.Recompute != "" && s.Recompute != "none", "recompute "+s.Recompute)
	add(s.AMP != "" && s.AMP != "off", s.AMP)
	add(s.Offload != "" && s.Offload != "none", "offload "+s.Offload)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

func (s Strategy) scheduleName() string {
	if s.OwnSchedule() {
		return "own schedule"
	}
	return s.Schedule
}

// OwnSchedule reports whether Schedule is the text of a schedule and not the name of one.
func (s Strategy) OwnSchedule() bool { return strings.ContainsAny(s.Schedule, "\n:") }
