package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// job is the input of a writer, and what it reports.
type job struct {
	w plan.Workload
	m plan.Model
	s strategy.Strategy
	// hosts, devices of each, and micro-batches of a step.
	hosts, devices, micros int
	mixed                  bool // hosts differ
	// notes are comments on the text, faults are reasons why there can be none.
	notes, faults []string
}

// system is a training system to export to.
type system struct {
	name  string
	write func(j *job) string
	mark  string // begins a comment
}

// systems are in the order of Systems.
var systems = []system{
	{"megatron", megatron, "# "},
	{"torchtitan", torchtitan, "# "},
	{"paddle", paddle, "# "},
	{"deepspeed", deepspeed, ""},
}

// Systems lists the systems that Write supports.
func Systems() []string {
	var names []string
	for _, s := range systems {
		names = append(names, s.name)
	}
	return names
}

// Knows reports whether Write supports a system.
func Knows(name string) bool { return slices.Contains(Systems(), name) }

// Write returns a strategy as the flags or config of a system. JSON has no comments: there notes are a field.
// For a strategy that the system does not support in any form it returns an error with the nearest
// alternative.
func Write(name string, w plan.Workload, s strategy.Strategy, c *cluster.Cluster) (string, error) {
	i := slices.IndexFunc(systems, func(x system) bool { return x.name == name })
	if i < 0 {
		return "", fmt.Errorf("export: unknown system %q: want one of %s", name, strings.Join(Systems(), ", "))
	}
	if s.OwnSchedule() {
		return "", fmt.Errorf("export: %s has no words for a schedule of one's own: want the name of one", name)
	}
	said := s
	s = s.Sized(w.Batch)
	j := &job{w: w, m: w.Model, s: s, hosts: c.NumHosts(), devices: c.Groups[0].Devices,
		micros: s.Micros(w.Batch)}
	if j.micros == 0 {
		return "", fmt.Errorf("export: %w", s.Uneven(w.Batch))
	}
	if s.Devices() != c.Size() { // launchers count the other devices as replicas
		return "", fmt.Errorf("export: the plan takes %d devices, the cluster %s has %d: make one for it with "+
			"galley plan", s.Devices(), c, c.Size())
	}
	if len(c.Groups) > 1 {
		j.mixed = true
		j.note("hosts differ: stages must run on hosts in the order %s, each with its own number of processes", c)
	}
	text := systems[i].write(j)
	if len(j.faults) > 0 {
		return "", fmt.Errorf("export: %s cannot run %s: %s", name, said.Line(), strings.Join(j.faults, "; "))
	}
	if systems[i].mark == "" {
		return text, nil
	}
	var b strings.Builder
	for _, n := range j.notes {
		fmt.Fprintf(&b, "%s%s\n", systems[i].mark, n)
	}
	return b.String() + text, nil
}

// note reports what the system does in a different way.
func (j *job) note(format string, args ...any) {
	j.notes = append(j.notes, fmt.Sprintf(format, args...))
}

// refuse reports what the system does not support at all, and the nearest alternative.
func (j *job) refuse(format string, args ...any) {
	j.faults = append(j.faults, fmt.Sprintf(format, args...))
}

// leaveOut reports that a memory saving is not supported, so that the plan may not fit without it.
func (j *job) leaveOut(what string, part float64, why string) {
	name := map[string]string{"activations": "activations", "optimizer": "optimizer's state"}[what]
	j.note("%s offloaded by %g%%: left out, it may not fit: %s: pin offload.%s=0", name, 100*part, why, what)
}

// precision returns the number format of products, explicit or default.
func (j *job) precision() string {
	if j.w.Precision == "" {
		return "bf16"
	}
	return j.w.Precision
}

// recomputes reports whether the backward pass recomputes anything.
func (j *job) recomputes() bool {
	return j.s.Recompute.Mode() == strategy.Full || j.s.Recompute.Mode() == strategy.Selective
}

// sharded returns the number of ranks that the state is sharded over: data and context parallelism together.
func (j *job) sharded() int {
	switch {
	case j.s.Zero == 0:
		return 1
	case j.s.Shard > 0:
		return j.s.Shard
	}
	return j.s.DP * j.s.CP
}

// shards returns the number of replicas that the state is sharded over, for systems that shard by whole
// replicas: the fewest that cover sharded.
func (j *job) shards() int {
	n := 1
	for n < j.s.DP && (j.s.DP%n != 0 || n*j.s.CP < j.sharded()) {
		n++
	}
	return n
}

// otherSchedule returns the name of the strategy's schedule if the system does not offer it; empty
// otherwise.
func (j *job) otherSchedule(offers ...string) string {
	name := j.s.Class().Name
	if slices.Contains(offers, name) {
		return ""
	}
	return name
}

// chunks returns the number of layers of each chunk.
func (j *job) chunks() []int {
	if len(j.s.Layers) > 0 {
		return j.s.Layers
	}
	n := j.s.PP * j.s.VPP
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = j.m.Layers / n
		if i < j.m.Layers%n {
			sizes[i]++
		}
	}
	return sizes
}

// even reports whether all chunks have the same number of layers.
func (j *job) even() bool {
	c := j.chunks()
	return slices.Min(c) == slices.Max(c)
}
