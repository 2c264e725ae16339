package runs

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/plan"
)

// kind returns the class of similar rows, which share constants.
func (c *runCase) kind() plan.Kind {
	k := plan.KindOf(&c.workload, c.slowestDevice())
	k.Era = era(c.row)
	return k
}

// slowestDevice returns the name of the slowest device, which others wait for.
func (c *runCase) slowestDevice() string {
	name, least := "", 0.0
	for _, g := range c.cluster.Groups {
		r, _ := g.Device.Rate("fp16")
		if name == "" || r.Peak < least {
			name, least = g.Device.Name, r.Peak
		}
	}
	return name
}

// era returns the generation of a row's software: see plan.Kind. Unnamed in-house frameworks are assumed to
// be as modern as their time.
func era(r *runRow) string {
	f := strings.ToLower(r.Framework)
	switch {
	case compiledWhole(f):
		return "compiled"
	case eagerTorch(f):
		return "eager"
	case modernMegatron(f):
		return "modern"
	case classicMegatron(f) && !fusedTime(r):
		return "classic"
	case classicMegatron(f), fusedTime(r), r.year() >= fusedYear:
		return "modern"
	}
	return ""
}

// eagerTorch reports whether a framework runs layers in PyTorch, op by op or fused by its compiler.
func eagerTorch(f string) bool {
	for _, name := range []string{"fsdp", "torchtitan", "composer", "llm-foundry", "internevo", "colossal",
		"hugging",
		"transformers", "accelerate", "lightning", "nanotron", "fairscale", "pytorch"} {
		if strings.Contains(f, name) && !modernMegatron(f) {
			return true
		}
	}
	return false
}

// fusedYear is the year from which fused attention and overlapped collectives were usual.
const fusedYear = 2023

// fusedTime reports whether a run must be from the time of fused attention: its devices are newer, or its
// model has gated layers or shared keys.
func fusedTime(r *runRow) bool {
	gpu := strings.ToUpper(r.Cluster.GPU)
	for _, name := range []string{"H100", "H200", "H800", "H20", "B100", "B200", "B300", "GB2", "GB3", "MI300",
		"MI250",
		"L40"} {
		if strings.Contains(gpu, name) {
			return true
		}
	}
	m := &r.Model
	shared := m.KVHeads != nil && m.Heads != nil && *m.KVHeads < *m.Heads
	return shared || strings.Contains(strings.ToLower(m.MLP), "glu") || m.MoE != nil && m.MoE.Experts > 0
}

// year returns the year in which a row's source was published, from its arXiv number, a year in its name, or
// a conference; 0 if unknown.
func (r *runRow) year() int {
	if m := archived.FindStringSubmatch(r.Source); m != nil {
		return 2000 + *number(m[1])
	}
	if m := dated.FindStringSubmatch(r.Source); m != nil {
		return *number(m[1])
	}
	if m := conference.FindStringSubmatch(r.Source); m != nil {
		n, _ := strconv.Atoi(m[1])
		return 2000 + n
	}
	return 0
}

var (
	archived   = regexp.MustCompile(`\b([12]\d)(?:0[1-9]|1[0-2])\.\d{4,5}\b`)
	dated      = regexp.MustCompile(`\b(20[12]\d)`)
	conference = regexp.MustCompile(`\b[A-Z]{2}[A-Za-z]*[ '’]*([12]\d)\b`)
)
