package search

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/plan"
)

// Pin is what must hold of a strategy: tp=4 pp=2 zero=1. The zero value asks nothing.
type Pin struct {
	text string
	keys []string
	want plan.Strategy
}

// betweenWords are commas that separate words; in layers=8,7 they do not.
var betweenWords = regexp.MustCompile(`(?: ?,)+ ?([a-z]|$)`)

// ParsePin reads part of a strategy, in the words of plan.ParseStrategy.
func ParsePin(text string) (Pin, error) {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, ";", " ")), " ")
	p := Pin{text: strings.TrimSpace(betweenWords.ReplaceAllString(text, " $1"))}
	var err error
	if p.want, err = plan.ParseStrategy(p.text); err != nil {
		return Pin{}, err
	}
	if _, err := pipeline.Choose(p.want.Schedule, p.want.VPP); err != nil {
		return Pin{}, fmt.Errorf("strategy: %w", err)
	}
	for _, w := range strings.Fields(p.text) {
		key, _, _ := strings.Cut(w, "=")
		if slices.Contains(p.keys, key) {
			return Pin{}, fmt.Errorf("strategy: %s is said twice in %q", key, p.text)
		}
		p.keys = append(p.keys, key)
	}
	return p, nil
}

// String is the pin as ParsePin reads it.
func (p Pin) String() string { return p.text }

// has reports whether the pin says something of a word.
func (p Pin) has(key string) bool { return slices.Contains(p.keys, key) }

// allows reports whether a strategy is as the pin asks.
func (p Pin) allows(s plan.Strategy) bool {
	return !slices.ContainsFunc(p.keys, func(key string) bool { return !p.same(key, s) })
}

func (p Pin) same(key string, s plan.Strategy) bool {
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
	case "micro":
		return one(w.Micro, s.Micro)
	case "zero":
		return w.Zero == s.Zero
	case "shard":
		return w.Shard == s.Shard
	case "sp":
		return w.SP == s.SP
	case "schedule":
		return w.Class() == s.Class()
	case "cp_kind":
		return w.CPKind == s.CPKind || w.CPKind == "ring" && s.CPKind == ""
	case "recompute":
		return w.Recompute == s.Recompute
	case "offload.optimizer":
		return w.Offload.Optimizer == s.Offload.Optimizer
	case "offload.activations":
		return w.Offload.Activations == s.Offload.Activations
	}
	return slices.Equal(w.Layers, s.Layers)
}
