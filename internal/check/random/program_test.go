package random

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/mesh"
)

var programs = flag.Int("programs", 0,
	"how many annotated programs to draw; galley check programs draws more")

// TestAnnotatedPrograms: a program whose tensors say where they are is trained op by op, compiled, and on one
// device with the same values, gradients and parameters after two steps of AdamW; what is asked is done, or
// refused with its line.
func TestAnnotatedPrograms(t *testing.T) {
	n := 40
	if testing.Short() {
		n = 10
	}
	if *programs > 0 {
		n = *programs
	}
	var text strings.Builder
	r := Programs(&text, *from, n)
	t.Logf("%d of %d are wrong, %d are refused with their line when they are compiled", r.Wrong, n, r.Refused)
	if r.Wrong > 0 {
		t.Error(text.String())
	}
	if r.Refused > n/20 {
		t.Errorf("%d of %d are refused", r.Refused, n)
	}
}

// TestAnnotatedFound is the programs that were wrong once, with what they found.
func TestAnnotatedFound(t *testing.T) {
	for seed, what := range map[uint64]string{
		8:     "what is computed of weights on one mesh and moved to another was made on the other",
		124:   "the same, on a mesh that data comes back to",
		20100: "gathers were moved to their first use on devices of one mesh, and not on those of two: a deadlock",
		20123: "the same, backward",
		20143: "the same, of meshes of which one is part of the other",
		332:   "a gradient that moves to its weight's mesh kept a sum pending along an axis of its own mesh",
	} {
		if err := DrawAnnotated(seed).Check(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestPlanIsLookedAt: a parameter or a value that is elsewhere than is asked is found in the plan.
func TestPlanIsLookedAt(t *testing.T) {
	for what, change := range map[string]func(p *Annotated){
		"w0: ": func(p *Annotated) { p.Weights[0].At.Places[0] = mesh.Shard(0) },
		"v2 = tanh: nothing in the plan lies": func(p *Annotated) {
			p.Code[1].At = laid{Mesh: 0, Places: mesh.Placements{mesh.Shard(1)}}
		},
	} {
		m, err := mesh.Parse("x=2")
		if err != nil {
			t.Fatal(err)
		}
		whole := mesh.Placements{mesh.Replicate()}
		p := &Annotated{Devices: 2, Meshes: []*mesh.Mesh{m},
			Weights: []tensor{{Shape: []int{4, 6}, At: laid{0, slices.Clone(whole)}}},
			Inputs:  []tensor{{Shape: []int{6, 4}, At: laid{0, whole}}},
			Code: []instr{{Op: "matmul", In: []int{0}, Weights: []int{0}, At: nowhere},
				{Op: "tanh", In: []int{1}, At: laid{0, mesh.Placements{mesh.Shard(0)}}},
				{Op: "squares", In: []int{2}, At: nowhere}}}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		p.changed = change
		if _, err := p.Static(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
}
