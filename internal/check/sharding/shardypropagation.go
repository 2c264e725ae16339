package sharding

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// shardyProgram is a program with shardings before and after propagation.
type shardyProgram struct {
	ID        string                `json:"id"`
	Algorithm string                `json:"algorithm"`
	Meshes    map[string]shardyMesh `json:"meshes"`
	Args      []shardyTensor        `json:"args"`
	Ops       []shardyOp            `json:"ops"`
	Returns   []shardyTensor        `json:"returns"`
	Groups    []struct {
		Value string `json:"value"`
		Group int    `json:"group"`
	} `json:"sharding_groups"`
}

// UnmarshalJSON distinguishes an expected empty sharding from no expectation.
func (t *shardyTensor) UnmarshalJSON(text []byte) error {
	type plain shardyTensor
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, (*plain)(t)); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	after, ok := fields["sharding_after"]
	t.Asserted = ok && string(fields["after_unchecked"]) != "true"
	if !t.Asserted {
		return nil
	}
	return json.Unmarshal(after, &t.After)
}

func checkPropagation(text json.RawMessage) shardyVerdict {
	var p shardyProgram
	if err := json.Unmarshal(text, &p); err != nil {
		return shardyVerdict{differs: err.Error()}
	}
	r := &shardyRun{p: p, ids: map[string]int{}, types: map[string]ir.Type{}, meshes: map[string]*mesh.Mesh{},
		groups: map[int][]int{}}
	v := shardyVerdict{id: p.ID}
	if err := r.run(); err != nil {
		v.apart = err.Error()
		return v
	}
	v.differs = strings.Join(r.faults, "; ")
	return v
}

// shardyRun builds the graph of a program and compares the results of propagation.
type shardyRun struct {
	p       shardyProgram
	g       *shard.Graph
	ids     map[string]int
	types   map[string]ir.Type
	meshes  map[string]*mesh.Mesh
	groups  map[int][]int
	returns []int
	faults  []string
}

func (r *shardyRun) run() error {
	reach, strategy := shard.Wide, shard.ByUser
	switch algorithm := r.p.Algorithm; {
	case strings.HasPrefix(algorithm, "basic"):
		strategy = shard.Basic
	case strings.HasPrefix(algorithm, "aggressive"):
		strategy = shard.Aggressive
	case strings.HasPrefix(algorithm, "op-priority"):
		strategy = shard.ByOp
	}
	if strings.Contains(r.p.Algorithm, "conservative") {
		reach = shard.Narrow
	}
	r.g = shard.NewGraph(reach)
	if err := r.build(reach); err != nil {
		return err
	}
	r.g.Run(strategy)
	r.compare()
	return nil
}

func (r *shardyRun) build(reach shard.Reach) error {
	for name, m := range r.p.Meshes {
		built, err := m.build()
		if err != nil {
			return err
		}
		r.meshes[name] = built
	}
	for _, a := range r.p.Args {
		if err := r.value(a); err != nil {
			return err
		}
	}
	for _, o := range r.p.Ops {
		if err := r.op(o, reach); err != nil {
			return err
		}
	}
	for _, x := range r.p.Groups {
		r.groups[x.Group] = append(r.groups[x.Group], r.ids[x.Value])
	}
	for _, group := range slices.Sorted(maps.Keys(r.groups)) {
		r.g.Alike(r.groups[group]...)
	}
	for _, x := range r.p.Returns {
		id := r.g.Return(r.ids[x.Value])
		r.returns = append(r.returns, id)
		if err := r.annotate(id, x); err != nil {
			return err
		}
	}
	return nil
}

func (r *shardyRun) value(t shardyTensor) error {
	typ, err := t.typ()
	if err != nil {
		return err
	}
	id := r.g.Value(typ.Shape)
	r.ids[t.ID], r.types[t.ID] = id, typ
	return r.annotate(id, t)
}

func (r *shardyRun) annotate(id int, t shardyTensor) error {
	if t.Before == nil {
		return nil
	}
	s, err := t.Before.sharding(len(t.Shape))
	if err != nil {
		return err
	}
	m := r.meshes[t.Before.Mesh]
	if len(t.Before.Dims) != len(t.Shape) { // all on one device, with a mesh of its own
		m, _ = mesh.New([]mesh.Axis{{Name: t.Before.Mesh, Size: 1}})
	}
	return r.g.Annotate(id, m, s)
}

func (r *shardyRun) op(o shardyOp, reach shard.Reach) error {
	var in, out []ir.Type
	var operands, results []int
	for _, name := range o.Operands {
		in, operands = append(in, r.types[name]), append(operands, r.ids[name])
	}
	for _, t := range o.Results {
		if err := r.value(t); err != nil {
			return err
		}
		out, results = append(out, r.types[t.ID]), append(results, r.ids[t.ID])
	}
	switch {
	case strings.HasSuffix(o.Op, ".constant") || o.Op == "stablehlo.iota": // without operands to propagate from
		return nil
	case o.Op == "sdy.sharding_constraint":
		return r.constrain(o, in[0], operands, results)
	case o.Op == "sdy.propagation_barrier":
		d := map[string]shard.Direction{"FORWARD": shard.ToResults, "BACKWARD": shard.ToOperands,
			"BOTH": shard.BothWays}[o.Attrs.Direction]
		r.g.Barrier(operands[0], results[0], d)
		return nil
	case o.Attrs.Rule != nil:
		r.g.Tie(o.Op, o.Attrs.Rule.spread(), operands, results)
		return nil
	}
	s, t, err := o.spread(in, out, reach)
	if err != nil {
		return err
	}
	var data []int
	for _, i := range t.data {
		data = append(data, operands[i])
	}
	r.g.Tie(o.Op, s, data, results)
	return nil
}

// constrain adds Galley's own constraint.
func (r *shardyRun) constrain(o shardyOp, t ir.Type, operands, results []int) error {
	b := ir.NewBuilder("op")
	before := o.Results[0].Before
	s, err := before.sharding(len(t.Shape))
	if err != nil {
		return err
	}
	m := r.meshes[before.Mesh]
	if m == nil {
		return absent("a constraint without a mesh does not exist")
	}
	n := constraintOf(b, t, m, s)
	return r.g.Op(n, "", []ir.Type{t}, []ir.Type{t}, operands, results)
}

// spread converts a rule given by a program.
func (r *shardyRule) spread() *shard.Spread {
	s := &shard.Spread{Operands: len(r.Operands)}
	number := map[string]int{}
	for _, dims := range slices.Concat(r.Operands, r.Results) {
		list := make([][]int, len(dims))
		for d, names := range dims {
			for _, name := range names {
				if _, ok := number[name]; !ok {
					number[name] = len(s.Factors)
					kind := shard.Pass
					if slices.Contains(r.Reduction, name) {
						kind = shard.Reduction
					}
					s.Factors = append(s.Factors, shard.Factor{Name: name[0], Size: r.Sizes[name], Kind: kind})
				}
				list[d] = append(list[d], number[name])
			}
		}
		s.Dims = append(s.Dims, list)
	}
	return s
}

func (r *shardyRun) compare() {
	for _, a := range r.p.Args {
		r.compareOne(a.ID, r.ids[a.ID], a)
	}
	for _, o := range r.p.Ops {
		for _, t := range o.Results {
			r.compareOne(t.ID, r.ids[t.ID], t)
		}
	}
	for i, t := range r.p.Returns {
		r.compareOne(fmt.Sprintf("return %d", i), r.returns[i], t)
	}
}

func (r *shardyRun) compareOne(name string, id int, t shardyTensor) {
	if !t.Asserted {
		return
	}
	want := mesh.Open(mesh.Whole(len(t.Shape)))
	if t.After != nil {
		want, _ = t.After.sharding(len(t.Shape))
	}
	got := r.g.Sharding(id)
	closed := r.p.Algorithm == "propagation-pipeline" || t.After != nil && len(t.After.Dims) != len(t.Shape)
	for d := range want.Freedom {
		want.Freedom[d].Priority = 0
		if closed { // at the end no dim is open
			want.Freedom[d].Open, got.Freedom[d].Open = false, false
		}
	}
	if !got.Equal(want) {
		r.faults = append(r.faults, fmt.Sprintf("%s: got %v, want %v", name, got, want))
	}
}

// constraintOf returns the op that requests a sharding.
func constraintOf(b *ir.Builder, t ir.Type, m *mesh.Mesh, s mesh.Sharding) op.Op {
	return op.Constrain(b.Param("", t), m, s).Node().Op().(op.Op)
}
