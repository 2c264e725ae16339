package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/plan"
)

// Part is a named share of a step's time or of a device's memory.
type Part struct {
	Name  string
	Value float64
}

// TimeParts returns the breakdown of a step's time, in the order of a table.
func TimeParts(p plan.Parts) []Part {
	return []Part{
		{"compute", p.Compute}, {"recompute", p.Recompute}, {"tensor", p.TP}, {"context", p.CP}, {"experts",
			p.EP}, {"pipeline", p.PP},
		{"data", p.DP}, {"bubble", p.Bubble}, {"optimizer", p.Optimizer}, {"offload", p.Offload}, {"fixed",
			p.Fixed},
	}
}

// MemoryParts returns the breakdown of a device's memory.
func MemoryParts(m plan.Memory) []Part {
	return []Part{
		{"weights", m.Weights}, {"gradients", m.Gradients}, {"optimizer", m.Optimizer}, {"activations",
			m.Activations}, {"logits", m.Logits},
		{"buffers", m.Buffers}, {"context", m.Context}, {"slack", m.Slack},
	}
}

// whatParts describes each part of the time, for sentences.
var whatParts = map[string]string{
	"compute": "computing", "recompute": "recomputing", "tensor": "tensor-parallel communication",
	"context": "context-parallel communication",
	"experts": "exchange between experts", "pipeline": "sends between stages",
	"data": "data-parallel communication", "bubble": "bubble",
	"optimizer": "optimizer", "offload": "offloading", "fixed": "fixed costs",
}

// Why explains why a plan is worse than a better one: the parts of the time that differ most, and memory.
func Why(best, other Plan) string {
	a, b := TimeParts(best.Estimate.Parts), TimeParts(other.Estimate.Parts)
	lost := other.Estimate.Step - best.Estimate.Step
	type diff struct {
		name string
		d    float64
	}
	var diffs []diff
	for i := range a {
		if d := b[i].Value - a[i].Value; math.Abs(d) > 0.0005*best.Estimate.Step {
			diffs = append(diffs, diff{whatParts[a[i].Name], d})
		}
	}
	slices.SortStableFunc(diffs, func(x, y diff) int { return cmp.Compare(math.Abs(y.d), math.Abs(x.d)) })
	var words []string
	for _, d := range diffs[:min(len(diffs), 4)] {
		words = append(words, fmt.Sprintf("%s %s", signed(d.d), d.name))
	}
	if len(words) == 0 {
		words = []string{"nothing differs by more than a thousandth"}
	}
	memory := other.Estimate.Memory.Total() - best.Estimate.Memory.Total()
	text := fmt.Sprintf("%s (%+.1f%%): %s", signed(lost), 100*lost/best.Estimate.Step, strings.Join(words, ", "))
	if math.Abs(memory) > 0.02*best.Estimate.Memory.Total() {
		text += fmt.Sprintf("; memory %+.1f GB", memory/1e9)
	}
	return text
}

// signed formats a difference of times.
func signed(s float64) string {
	sign := "+"
	if s < 0 {
		sign = "−"
	}
	return sign + Seconds(math.Abs(s))
}

// Seconds formats a time with a suitable unit.
func Seconds(s float64) string {
	switch {
	case s >= 10:
		return fmt.Sprintf("%.1f s", s)
	case s >= 1:
		return fmt.Sprintf("%.2f s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.1f ms", s*1e3)
	}
	return fmt.Sprintf("%.1f µs", s*1e6)
}
