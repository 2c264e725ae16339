package step

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// home is where a weight is updated: the rank of the first stage that uses it. Other ranks that use it get
// copies.
type home struct {
	rank   int
	others []int
	// used is whether any stage uses it.
	used bool
}

// homes is every weight's home. One that no stage uses stays on the first rank.
func homes(c *Config, sections []*section) []home {
	list := make([]home, len(c.Weights))
	for _, x := range sections {
		for _, w := range x.Weights {
			h := &list[w]
			switch {
			case !h.used:
				h.rank, h.used = x.rank, true
			case h.rank != x.rank && !slices.Contains(h.others, x.rank):
				h.others = append(h.others, x.rank)
			}
		}
	}
	return list
}

// updater traces the end of a step as one program on the meshes of all ranks.
type updater struct {
	c        *Config
	sections []*section
	homes    []home
	b        *ir.Builder
	// values and meshes are the annotations of parameters, by number.
	values  map[int]mesh.Sharding
	meshes  map[int]*mesh.Mesh
	roles   []role
	results []role
	specs   []mesh.Spec
}

// role is what a parameter of the update is.
type role struct {
	kind   roleKind
	rank   int
	weight int
	// index is the slot, the scalar or the micro-batch, stage that of a sum.
	index, stage int
}

type roleKind uint8

const (
	roleWeight roleKind = iota
	roleSlot
	roleSum
	roleScalar
	roleLoss  // a micro-batch's sum of losses
	roleCount // what it is divided by
	roleScale // the weight that the sum of losses was given
	roleReport
)

// newUpdate traces and partitions the update.
func newUpdate(b *builder, sections []*section) (*updater, *spmd.Program, error) {
	c := &b.c
	b.homes = homes(c, sections)
	u := &updater{c: c, sections: sections, homes: b.homes, b: ir.NewBuilder("update"),
		values: map[int]mesh.Sharding{}, meshes: map[int]*mesh.Mesh{}}
	f, err := u.trace()
	if err != nil {
		return nil, nil, err
	}
	layouts, err := shard.Infer(f, shard.Config{Mesh: c.Meshes[0], Values: u.values, Meshes: u.meshes})
	if err != nil {
		return nil, nil, fmt.Errorf("update: %w", err)
	}
	for i, r := range u.roles {
		if r.kind == roleSum { // inference speaks of how dims are split; sums are still pending
			layouts.Specs[i] = u.sections[r.stage].sums[slices.Index(u.sections[r.stage].Weights, r.weight)]
		}
	}
	p, err := spmd.Partition(f, layouts.Specs, c.Meshes[0],
		spmd.Config{Prices: c.Prices, Meshes: u.places(f), Results: u.specs})
	if err != nil {
		return nil, nil, fmt.Errorf("update: %w", err)
	}
	return u, p, nil
}

// places is the mesh of every value. Inference knows it only where something is split. Operands of one op are
// on one mesh here, but for constraints, which say where they move to; what has no operands is where it is
// used.
func (u *updater) places(f *ir.Func) []*mesh.Mesh {
	at := make([]*mesh.Mesh, f.NumValues())
	for i := range f.Params() {
		at[i] = u.meshes[i]
	}
	for _, n := range f.Nodes() {
		var m *mesh.Mesh
		for _, v := range n.In() {
			if m == nil {
				m = at[v.ID()]
			}
		}
		if c, ok := n.Op().(op.Constrainer); ok {
			m, _, _ = c.Constraint()
		}
		for _, v := range append(slices.Clone(n.Out()), n.In()...) {
			if at[v.ID()] == nil {
				at[v.ID()] = m
			}
		}
	}
	return at
}

func (u *updater) param(name string, t ir.Type, s mesh.Spec, r role) *ir.Value {
	i := len(u.roles)
	u.roles = append(u.roles, r)
	u.values[i], u.meshes[i] = mesh.Closed(s.With()), u.c.Meshes[r.rank]
	return u.b.Param(name, t)
}

func (u *updater) trace() (*ir.Func, error) {
	c := u.c
	lastRank := c.Schedule.Place[c.Schedule.Stages-1]
	weights, slots := make([]*ir.Value, len(c.Weights)), make([][]*ir.Value, len(c.Weights))
	for i, w := range c.Weights {
		weights[i] = u.param(w.Name, w.Type, w.Rest, role{kind: roleWeight, rank: u.homes[i].rank, weight: i})
	}
	for i, w := range c.Weights {
		for k, t := range c.Update.Slots(i) {
			slots[i] = append(slots[i], u.param(fmt.Sprintf("%s.slot%d", w.Name, k), t, w.slot(t), role{kind: roleSlot,
				rank: u.homes[i].rank, weight: i, index: k}))
		}
	}
	grads := u.gradients()
	loss, scale := u.loss(lastRank)
	for i := range grads {
		if grads[i] == nil {
			grads[i] = u.at(op.ZerosLike(weights[i]), u.homes[i].rank, c.Weights[i].Slot)
		}
	}
	norm := u.norm(grads, loss)
	norm = op.Mul(norm, op.Cast(u.scalarAt(scale, 0), norm.DType()))
	var out []*ir.Value
	for rank := range c.Meshes {
		in := UpdateIn{Norm: u.scalarAt(norm, rank), Scale: u.scalarAt(scale, rank)}
		out = append(out, u.rank(rank, weights, slots, grads, in)...)
	}
	out = append([]*ir.Value{u.scalarAt(loss, 0), norm}, out...)
	u.results = append([]role{{kind: roleReport}, {kind: roleReport, index: 1}}, u.results...)
	u.specs = append([]mesh.Spec{{}, {}}, u.specs...)
	return u.b.Build(out...)
}

// gradients is the sums of each weight's gradients over all stages that use it, where and as its slots lie.
func (u *updater) gradients() []*ir.Value {
	grads := make([]*ir.Value, len(u.c.Weights))
	for s, x := range u.sections {
		for j, w := range x.Weights {
			t := x.Joint.Params()[x.sumParam(j)].Type()
			sum := u.param(fmt.Sprintf("%s.sum%d", u.c.Weights[w].Name, s), t, x.sums[j],
				role{kind: roleSum, rank: x.rank, weight: w, stage: s})
			slot := u.c.Weights[w].Slot
			g := u.at(sum, x.rank, slot)
			if x.rank != u.homes[w].rank {
				g = u.at(g, u.homes[w].rank, slot)
			}
			if grads[w] != nil {
				g = op.Add(grads[w], g)
			}
			grads[w] = g
		}
	}
	return grads
}

// loss is the quotient of the sums over micro-batches, and what gradients are to be multiplied by: they are
// those of the sum, times the weight that it was given.
func (u *updater) loss(rank int) (loss, scale *ir.Value) {
	f := u.c.Forwards[0]
	var sum, count *ir.Value
	plus := func(x, y *ir.Value) *ir.Value {
		if x == nil {
			return y
		}
		return op.Add(x, y)
	}
	for m := range u.c.Schedule.Micros {
		sum = plus(sum, u.param(fmt.Sprintf("loss%d", m), f.Results()[0].Type(), mesh.Whole(0), role{kind: roleLoss,
			rank: rank, index: m}))
	}
	for m := range u.c.Schedule.Micros {
		count = plus(count, u.param(fmt.Sprintf("count%d", m), f.Results()[1].Type(), mesh.Whole(0),
			role{kind: roleCount, rank: rank, index: m}))
	}
	weight := u.param("weight", f.Results()[0].Type(), mesh.Whole(0), role{kind: roleScale, rank: rank})
	return op.Div(sum, count), op.Reciprocal(op.Mul(count, weight))
}

// at is x, laid on a rank's mesh.
func (u *updater) at(x *ir.Value, rank int, s mesh.Spec) *ir.Value {
	return op.Constrain(x, u.c.Meshes[rank], mesh.Closed(s.With()))
}

func (u *updater) scalarAt(x *ir.Value, rank int) *ir.Value { return u.at(x, rank, mesh.Whole(0)) }

// norm is that of all gradients together, on the first rank: each rank's own squares are summed there.
func (u *updater) norm(grads []*ir.Value, loss *ir.Value) *ir.Value {
	var total *ir.Value
	for rank := range u.c.Meshes {
		var own []*ir.Value
		for i, g := range grads {
			if u.homes[i].rank == rank && u.c.Weights[i].learns() {
				own = append(own, g)
			}
		}
		if len(own) == 0 {
			continue
		}
		squares := u.scalarAt(sumSquares(own), rank)
		if rank != 0 {
			squares = u.scalarAt(squares, 0)
		}
		if total != nil {
			squares = op.Add(total, squares)
		}
		total = squares
	}
	if total == nil { // nothing learns
		return u.scalarAt(op.ZerosLike(loss), 0)
	}
	return op.Sqrt(total)
}

func sumSquares(grads []*ir.Value) *ir.Value {
	var total *ir.Value
	for _, g := range grads {
		s := op.SumSquares(g)
		if total != nil {
			s = op.Add(total, s)
		}
		total = s
	}
	return total
}

// rank traces the update of the weights that are at home on a rank, and the copies that others need.
func (u *updater) rank(rank int, weights []*ir.Value, slots [][]*ir.Value, grads []*ir.Value,
	in UpdateIn) []*ir.Value {
	for k, t := range u.c.Update.Scalars {
		in.Scalars = append(in.Scalars, u.param(fmt.Sprintf("scalar%d.%d", k, rank), t, mesh.Whole(0),
			role{kind: roleScalar, rank: rank, index: k}))
	}
	var own []int
	for i := range weights {
		if u.homes[i].rank != rank {
			continue
		}
		own = append(own, i)
		in.Weights = append(in.Weights, u.at(weights[i], rank, u.c.Weights[i].Slot))
		in.Grads = append(in.Grads, grads[i])
		in.Slots = append(in.Slots, slots[i])
	}
	if len(own) == 0 {
		return nil
	}
	in.Index = own
	next := u.c.Update.Trace(in)
	var out []*ir.Value
	add := func(v *ir.Value, r role, s mesh.Spec) {
		out, u.results, u.specs = append(out, v), append(u.results, r), append(u.specs, s)
	}
	for k, i := range own {
		w := u.c.Weights[i]
		add(next.Weights[k], role{kind: roleWeight, rank: rank, weight: i}, w.Rest)
		for _, other := range u.homes[i].others {
			copied := u.at(u.at(next.Weights[k], rank, w.Rest), other, w.Rest)
			add(copied, role{kind: roleWeight, rank: other, weight: i}, w.Rest)
		}
		for j, s := range next.Slots[k] {
			add(s, role{kind: roleSlot, rank: rank, weight: i, index: j}, w.slot(s.Type()))
		}
	}
	return out
}
