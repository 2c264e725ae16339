package search

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/strategy"
)

// Pin fixes part of a strategy: tp=4 pp=2 zero=1. The zero value fixes nothing.
type Pin struct {
	text string
	keys []string
	want strategy.Strategy
}

// ParsePin parses part of a strategy, in the syntax of strategy.Parse.
func ParsePin(text string) (Pin, error) {
	want, said, err := strategy.ParsePart(text)
	if err != nil {
		return Pin{}, err
	}
	p := Pin{text: strings.Join(said, " "), want: want}
	if _, err := pipeline.Choose(want.Schedule, want.VPP); err != nil {
		return Pin{}, fmt.Errorf("strategy: %w", err)
	}
	for _, w := range said {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "micro":
			return Pin{}, fmt.Errorf("strategy: %q: micro is the number of micro-batches: a plan is pinned by "+
				"their size: want micro_batch=%s", w, value)
		case "amp", "overlap", "offload.dir":
			return Pin{}, fmt.Errorf("strategy: %q: it is a setting of a run, not of a plan: leave it out", w)
		}
		p.keys = append(p.keys, key)
	}
	return p, nil
}

// String returns the pin as ParsePin reads it.
func (p Pin) String() string { return p.text }

// has reports whether the pin fixes a key.
func (p Pin) has(key string) bool { return slices.Contains(p.keys, key) }

// allows reports whether a strategy matches the pin.
func (p Pin) allows(s strategy.Strategy) bool {
	return !slices.ContainsFunc(p.keys, func(key string) bool { return !p.same(key, s) })
}

func (p Pin) same(key string, s strategy.Strategy) bool {
	w := p.want
	one := func(a, b int) bool { return max(1, a) == max(1, b) }
	switch key {
	case "dp":
		return one(w.DP, s.DP)
	case "tp":
		return one(w.TP, s.TP)
	case "pp":
		return one(w.PP, s.PP)
	case "cp":
		return one(w.CP, s.CP)
	case "ep":
		return one(w.EP, s.EP)
	case "etp":
		return one(w.ETP, s.ETP)
	case "vpp":
		return one(w.VPP, s.VPP)
	case "micro_batch":
		return one(w.MicroBatch, s.MicroBatch)
	case "zero":
		return w.Zero == s.Zero
	case "shard":
		return w.Shard == s.Shard
	case "sp":
		return w.Sequence == s.Sequence
	case "schedule":
		return w.Class() == s.Class()
	case "cp_kind":
		return w.Context == s.Context || w.Context == "ring" && s.Context == ""
	case "recompute":
		return w.Recompute.Mode() == s.Recompute.Mode() && w.Recompute.Layers() == s.Recompute.Layers()
	case "offload.optimizer":
		return w.Offload.Optimizer == s.Offload.Optimizer
	case "offload.activations":
		return w.Offload.Activations == s.Offload.Activations
	}
	return slices.Equal(w.Layers, s.Layers)
}
