package sharding

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
)

// carryOut reshards data on one mesh: every device of an in-process world runs the moves on its shard.
func carryOut(from, to *mesh.Layout, parts held) (held, error) {
	m, shape := from.Mesh(), from.Shape()
	moves, _, err := spmd.Reshard(m, ir.Type{DType: array.F64, Shape: shape}, from.Spec(), to.Spec())
	if err != nil {
		return nil, err
	}
	world, err := inproc.New(slices.Max(m.Devices()) + 1)
	if err != nil {
		return nil, err
	}
	results, err := runtime.Locals(context.Background(), world, m.Devices(),
		func(id int) (*ir.Func, []array.Array, error) {
			local, _ := from.LocalShape(id)
			part := array.New(array.F64, local...)
			copy(array.Data[float64](part), parts[id])
			b := ir.NewBuilder("reshard")
			y, err := spmd.Apply(b.Param("x", ir.TypeOf(part)), m, id, shape, moves)
			if err != nil {
				return nil, nil, err
			}
			f, err := b.Build(y)
			return f, []array.Array{part}, err
		})
	if err != nil {
		return nil, err
	}
	got := held{}
	for id, out := range results {
		got[id] = array.Data[float64](out[0])
	}
	return got, nil
}

// collectives are the recorded names of moves that communicate.
var collectives = []string{"all_reduce", "reduce_scatter", "all_gather", "all_to_all"}

// recordedStep is one op of a recorded plan, with the layouts of the tensor before and after if
// stated.
type recordedStep struct {
	Op  string      `json:"op"`
	In  *spmdTensor `json:"value_in"`
	Out *spmdTensor `json:"value_out"`
}

// recordedPlan returns the ops that a case lists, and whether it lists any.
func (c *reshardCase) recordedPlan() ([]recordedStep, bool) {
	var steps []recordedStep
	if raw, ok := c.Expect["steps"]; ok && json.Unmarshal(raw, &steps) == nil {
		return steps, true
	}
	var names []string
	byRank := map[string][]string{}
	switch {
	case json.Unmarshal(c.Expect["ops"], &names) == nil:
	case json.Unmarshal(c.Expect["ops_contain"], &names) == nil:
	case json.Unmarshal(c.Expect["ops_by_rank"], &byRank) == nil:
		for _, list := range byRank {
			names = list
		}
	default:
		return nil, false
	}
	for _, name := range names {
		steps = append(steps, recordedStep{Op: name})
	}
	return steps, true
}

// comparePlan compares the collectives of a recorded plan with ours. If they differ, ours must not move more
// bytes.
func (c *reshardCase) comparePlan(from, to *mesh.Layout) finding {
	steps, ok := c.recordedPlan()
	if !ok {
		return finding{}
	}
	if !from.Mesh().Equal(to.Mesh()) {
		return unsupported("a list of another framework's sends and receives")
	}
	t := ir.Type{DType: array.F32, Shape: from.Shape()}
	moves, _, err := spmd.Reshard(from.Mesh(), t, from.Spec(), to.Spec())
	if err != nil {
		return fault("%v", err)
	}
	theirs, ours := &bill{m: from.Mesh()}, &bill{m: from.Mesh()}
	var want, got []string
	for _, s := range steps {
		if slices.Contains(collectives, s.Op) {
			want = append(want, s.Op)
		}
		theirs.step(t, s)
	}
	for _, x := range moves {
		if !x.Kind.Local() {
			got = append(got, x.Kind.String())
		}
		ours.move(t, x.Before, x.After)
	}
	text := fmt.Sprintf("got %s, want %s", strings.Join(got, ", "), strings.Join(want, ", "))
	switch err := firstError(ours.err, theirs.err); {
	case slices.Equal(got, want):
		return finding{}
	case err == nil && theirs.moved > 0 && ours.moved <= theirs.moved:
		return finding{outcome: isBetter, reason: fmt.Sprintf("%s: moves %.0f bytes, the recorded plan %.0f", text,
			ours.moved, theirs.moved)}
	}
	return fault("%s", text)
}

// step counts a recorded step.
func (b *bill) step(t ir.Type, s recordedStep) {
	if s.In == nil || s.Out == nil {
		return
	}
	in, err := s.In.spec(b.m, len(t.Shape))
	out, err2 := s.Out.spec(b.m, len(t.Shape))
	b.err = firstError(b.err, err, err2)
	if b.err == nil {
		b.move(t, in, out)
	}
}
