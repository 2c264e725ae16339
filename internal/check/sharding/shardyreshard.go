package sharding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// shardyReshard is a case of one or more reshards, or of ops with fixed shardings, and the expected
// ops.
type shardyReshard struct {
	ID       string                      `json:"id"`
	Meshes   map[string]shardyDeviceMesh `json:"meshes"`
	Args     []shardyFixed               `json:"args"`
	Ops      []shardyFixedOp             `json:"ops"`
	Returns  []shardyFixed               `json:"returns"`
	Expected []shardyExpected            `json:"expected_ops"`
	Absent   []string                    `json:"expected_absent_ops"`
}

// shardyDeviceMesh is a mesh with the order of its devices.
type shardyDeviceMesh struct {
	shardyMesh
	Devices []int `json:"device_ids"`
}

// build returns the mesh. One without axes is one device.
func (m shardyDeviceMesh) build() (*mesh.Mesh, error) {
	plain, err := m.shardyMesh.build()
	if err != nil {
		return nil, err
	}
	if plain == nil {
		return mesh.New([]mesh.Axis{{Name: "one", Size: 1}}, m.Devices...)
	}
	return mesh.New(plain.Axes(), m.Devices...)
}

// shardyFixed is a tensor with a fixed sharding; without one it is replicated.
type shardyFixed struct {
	ID       string          `json:"id"`
	Value    string          `json:"value"`
	Shape    []int           `json:"shape"`
	DType    string          `json:"dtype"`
	Sharding *shardySharding `json:"sharding"`
}

func (t shardyFixed) typ() (ir.Type, error) {
	return shardyTensor{Shape: t.Shape, DType: t.DType}.typ()
}

type shardyFixedOp struct {
	Op       string        `json:"op"`
	Target   string        `json:"call_target"`
	Operands []string      `json:"operands"`
	Results  []shardyFixed `json:"results"`
	Attrs    shardyAttrs   `json:"attrs"`
}

// shardyExpected is one op of the expected result.
type shardyExpected struct {
	Op         string           `json:"op"`
	ID         string           `json:"id"`
	Operands   []string         `json:"operands"`
	Out        *shardySharding  `json:"out_sharding"`
	Shardings  []shardySharding `json:"shardings"`
	Unchecked  bool             `json:"shardings_unchecked"`
	Axes       []string         `json:"axes"`
	AxesPerDim [][]string       `json:"axes_per_dim"`
	Moves      []struct {
		Axes   []string `json:"axes"`
		Source int      `json:"src_dim"`
		Target int      `json:"tgt_dim"`
	} `json:"moves"`
}

// byBytes returns prices with which bytes decide, and the number of collectives only if they are equal.
func byBytes() spmd.Prices {
	return spmd.Prices{Default: spmd.Link{Alpha: 1e-3, Beta: 1}, Plain: true}
}

// layout returns the layout of a tensor of a rank; without a sharding it is replicated on the first
// mesh.
func (c *shardyReshard) layout(s *shardySharding, rank int, first *mesh.Mesh) (op.Layout, error) {
	if s == nil {
		return op.Layout{Mesh: first, Spec: mesh.Whole(rank)}, nil
	}
	m, err := c.Meshes[s.Mesh].build()
	if err != nil {
		return op.Layout{}, err
	}
	sh, err := s.sharding(rank)
	return op.Layout{Mesh: m, Spec: sh.Spec}, err
}

// checkReshard compares the moves of one reshard, in order. Slices of several dims, and gathers, count as
// one.
func checkReshard(text json.RawMessage) shardyVerdict {
	var c shardyReshard
	if err := json.Unmarshal(text, &c); err != nil {
		return shardyVerdict{differs: err.Error()}
	}
	v := shardyVerdict{id: c.ID}
	if err := c.compareMoves(&v); err != nil {
		v.apart = err.Error()
	}
	return v
}

func (c *shardyReshard) compareMoves(v *shardyVerdict) error {
	if len(c.Ops) != 1 || len(c.Args) != 1 || c.Ops[0].Op != "sdy.reshard" {
		return absent("not one reshard")
	}
	t, err := c.Args[0].typ()
	if err != nil {
		return err
	}
	to, err := c.layout(c.Ops[0].Results[0].Sharding, len(t.Shape), nil)
	if err != nil {
		return err
	}
	from, err := c.layout(c.Args[0].Sharding, len(t.Shape), to.Mesh)
	if err != nil {
		return err
	}
	theirs, theirCost, err := c.expectedMoves(t, from)
	if err != nil {
		return err
	}
	ours, cost, err := reshardMoves(t, from, to)
	if err != nil {
		v.differs = err.Error()
		return nil
	}
	judgeMoves(v, ours, theirs, cost, theirCost)
	return nil
}

// judgeMoves compares two sequences of moves with the same result.
func judgeMoves(v *shardyVerdict, ours, theirs []string, cost, theirCost float64) {
	switch {
	case slices.Equal(ours, theirs):
	case cost < theirCost*0.9999:
		v.apart = "other moves, which send less"
	case cost <= theirCost*1.0001:
		v.apart = "other moves, which send as much"
	default:
		v.differs = fmt.Sprintf("got %s, %.0f bytes, want %s, %.0f bytes", strings.Join(ours, "; "), cost,
			strings.Join(theirs, "; "), theirCost)
	}
}

func reshardMoves(t ir.Type, from, to op.Layout) ([]string, float64, error) {
	if from.Mesh.Equal(to.Mesh) {
		moves, cost, err := spmd.NewRouter(from.Mesh, byBytes()).Reshard(t, from.Spec, to.Spec)
		return moveTexts(moves), cost.Bytes, err
	}
	way, cost, err := spmd.Across(t, from, to, byBytes())
	if err != nil {
		return nil, 0, err
	}
	moves := slices.DeleteFunc(way.Moves(),
		func(m spmd.Move) bool { return m.Kind == spmd.Exchange && m.Cost.Bytes == 0 })
	return moveTexts(moves), cost.Bytes, nil
}

// moveTexts returns moves as texts to compare: consecutive moves of one kind are sorted, since their order
// does not matter.
func moveTexts(moves []spmd.Move) []string {
	var list []string
	from := 0
	for i, m := range moves {
		text := fmt.Sprintf("%s %s dim %d", m.Kind, m.Axes, m.Dim)
		switch m.Kind {
		case spmd.AllToAll:
			text = fmt.Sprintf("%s %s dim %d to %d", m.Kind, m.Axes, m.From, m.Dim)
		case spmd.Permute, spmd.Exchange:
			text = fmt.Sprintf("%s to %s", m.Kind, m.After)
		case spmd.AllReduce, spmd.Mask:
			text = fmt.Sprintf("%s %s", m.Kind, m.Axes)
		}
		if i > 0 && moves[i-1].Kind != m.Kind {
			from = len(list)
		}
		list = append(list, text)
		if m.Kind == spmd.Slice || m.Kind == spmd.AllGather {
			slices.Sort(list[from:])
		}
	}
	return list
}

// expectedMoves returns the expected ops as moves, and the bytes that they send, by the same prices as ours.
func (c *shardyReshard) expectedMoves(t ir.Type, at op.Layout) ([]string, float64, error) {
	var moves []spmd.Move
	bytes := 0.0
	for _, e := range c.Expected {
		next, err := c.layout(e.Out, len(t.Shape), at.Mesh)
		if err != nil {
			return nil, 0, err
		}
		list, err := e.moves(at.Spec, next.Spec)
		if err != nil {
			return nil, 0, err
		}
		for _, m := range list {
			if !leads(next.Mesh, t, m) {
				return nil, 0, absent("parts that do not divide evenly lie elsewhere here, so that the expected moves " +
					"lead to other parts")
			}
			bytes += byBytes().Price(next.Mesh, t, m).Bytes
		}
		moves, at = append(moves, list...), next
	}
	return moveTexts(moves), bytes, nil
}

// moves returns one expected op as moves, one for each dim that it changes. The Specs between them matter
// only for sizes.
func (e shardyExpected) moves(before, after mesh.Spec) ([]spmd.Move, error) {
	kind, ok := map[string]spmd.Kind{"sdy.all_gather": spmd.AllGather, "sdy.all_slice": spmd.Slice,
		"sdy.all_to_all":         spmd.AllToAll,
		"sdy.collective_permute": spmd.Permute}[e.Op]
	if !ok {
		return nil, absent("expected op %s", e.Op)
	}
	var list []spmd.Move
	at := before.Clone()
	for d, names := range e.AxesPerDim {
		axes, err := shardyAxes(names)
		if err != nil {
			return nil, err
		}
		if len(axes) > 0 {
			next := at.Clone()
			next.Dims[d] = after.Dims[d]
			list = append(list, spmd.Move{Kind: kind, Axes: axes, Dim: d, Before: at, After: next})
			at = next
		}
	}
	for _, m := range e.Moves {
		axes, err := shardyAxes(m.Axes)
		if err != nil {
			return nil, err
		}
		list = append(list, spmd.Move{Kind: kind, Axes: axes, Dim: m.Target, From: m.Source, Before: before,
			After: after})
	}
	if kind == spmd.Permute {
		list = append(list, spmd.Move{Kind: kind, Before: before, After: after})
	}
	return list, nil
}

// leads reports whether a move gives its stated result if shards are uneven: splitting by the parts of an
// axis one after the other then differs from splitting by the axis.
func leads(m *mesh.Mesh, t ir.Type, x spmd.Move) bool {
	joins := func(d int, short, long mesh.Axes) bool {
		whole := mesh.Whole(len(t.Shape))
		one, other := whole.Clone(), whole.Clone()
		one.Dims[d], other.Dims[d] = append(slices.Clone(short), x.Axes...), long
		a, err := one.Layout(m, t.Shape)
		if err != nil {
			return false
		}
		b, err := other.Layout(m, t.Shape)
		return err == nil && a.Same(b)
	}
	switch x.Kind {
	case spmd.AllGather:
		return joins(x.Dim, x.After.Dims[x.Dim], x.Before.Dims[x.Dim])
	case spmd.Slice:
		return joins(x.Dim, x.Before.Dims[x.Dim], x.After.Dims[x.Dim])
	case spmd.AllToAll:
		return joins(x.Dim, x.Before.Dims[x.Dim], x.After.Dims[x.Dim]) &&
			joins(x.From, x.After.Dims[x.From], x.Before.Dims[x.From])
	}
	return true
}
