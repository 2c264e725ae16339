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

// home is the rank that updates a weight: that of the first stage that uses it. Other ranks that use it get
// copies.
type home struct {
	rank   int
	others []int
	// used is whether any stage uses it.
	used bool
}

// homes returns every weight's home. One that no stage uses stays on the first rank.
func homes(c *Config, sections []*section) []home {
	list := make([]home, len(c.Weights))
	for i, w := range c.Weights {
		if len(w.Held) > 0 {
			list[i] = home{rank: w.Held[0], others: slices.Clone(w.Held[1:]), used: true}
		}
	}
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

// role identifies a parameter of the update.
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
		if r.kind == roleSum { // inference is about how dims are split; sums are still unreduced
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

// places returns the mesh of every value. Inference determines it only for split values. Operands of one op
// are on one mesh here, except for constraints, which define where they move to; a node without operands is
// where it is used.
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

func (u *updater) param(name string, t ir.Type, m *mesh.Mesh, s mesh.Spec, r role) *ir.Value {
	i := len(u.roles)
	u.roles = append(u.roles, r)
	u.values[i], u.meshes[i] = mesh.Closed(s.With()), m
	return u.b.Param(name, t)
}

// scalar returns a parameter without dims, on a rank's mesh.
func (u *updater) scalar(name string, t ir.Type, r role) *ir.Value {
	return u.param(name, t, u.c.Meshes[r.rank], mesh.Whole(0), r)
}

// home returns the layouts of a weight where it is updated.
func (u *updater) home(weight int) Layouts { return u.c.layouts(weight, u.homes[weight].rank) }

func (u *updater) trace() (*ir.Func, error) {
	c := u.c
	lastRank := c.Schedule.Place[c.Schedule.Stages-1]
	weights, slots := make([]*ir.Value, len(c.Weights)), make([][]*ir.Value, len(c.Weights))
	for i, w := range c.Weights {
		at := u.home(i)
		weights[i] = u.param(w.Name, w.Type, at.Mesh, at.Rest, role{kind: roleWeight, rank: u.homes[i].rank,
			weight: i})
	}
	for i, w := range c.Weights {
		at := u.home(i)
		for k, t := range c.Update.Slots(i) {
			slots[i] = append(slots[i], u.param(fmt.Sprintf("%s.slot%d", w.Name, k), t, at.Mesh, w.slot(at, t),
				role{kind: roleSlot, rank: u.homes[i].rank, weight: i, index: k}))
		}
	}
	grads := u.gradients()
	loss, scale := u.loss(lastRank)
	for i := range grads {
		if grads[i] == nil {
			grads[i] = u.at(op.ZerosLike(weights[i]), u.home(i).Mesh, u.home(i).Slot)
		}
	}
	norm := u.norm(grads, loss)
	norm = op.Mul(norm, op.Cast(u.scalarAt(scale, c.Meshes[0]), norm.DType()))
	var out []*ir.Value
	for rank := range c.Meshes {
		var scalars []*ir.Value
		for k, t := range c.Update.Scalars {
			scalars = append(scalars, u.scalar(fmt.Sprintf("scalar%d.%d", k, rank), t, role{kind: roleScalar,
				rank: rank, index: k}))
		}
		for _, g := range u.groups(rank) {
			in := UpdateIn{Index: g.weights, Norm: u.scalarAt(norm, g.mesh), Scale: u.scalarAt(scale, g.mesh)}
			for _, s := range scalars {
				if !g.mesh.Equal(c.Meshes[rank]) {
					s = u.scalarAt(s, g.mesh)
				}
				in.Scalars = append(in.Scalars, s)
			}
			out = append(out, u.rank(rank, weights, slots, grads, in)...)
		}
	}
	out = append([]*ir.Value{u.scalarAt(loss, c.Meshes[0]), norm}, out...)
	u.results = append([]role{{kind: roleReport}, {kind: roleReport, index: 1}}, u.results...)
	u.specs = append([]mesh.Spec{{}, {}}, u.specs...)
	return u.b.Build(out...)
}

// gradients returns the sums of each weight's gradients over all stages that use it, in the layout of its
// slots.
func (u *updater) gradients() []*ir.Value {
	grads := make([]*ir.Value, len(u.c.Weights))
	for s, x := range u.sections {
		for j, w := range x.Weights {
			t := x.Joint.Params()[x.sumParam(j)].Type()
			here, home := u.c.layouts(w, x.rank), u.home(w)
			sum := u.param(fmt.Sprintf("%s.sum%d", u.c.Weights[w].Name, s), t, here.Mesh, x.sums[j],
				role{kind: roleSum, rank: x.rank, weight: w, stage: s})
			g := u.at(sum, here.Mesh, here.Slot)
			if x.rank != u.homes[w].rank {
				g = u.at(g, home.Mesh, home.Slot)
			}
			if grads[w] != nil {
				g = op.Add(grads[w], g)
			}
			grads[w] = g
		}
	}
	return grads
}

// loss returns the quotient of the sums over micro-batches, and the factor of gradients: they are those of
// the sum, times the weight that it was given.
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
		sum = plus(sum, u.scalar(fmt.Sprintf("loss%d", m), f.Results()[0].Type(), role{kind: roleLoss, rank: rank,
			index: m}))
	}
	for m := range u.c.Schedule.Micros {
		count = plus(count, u.scalar(fmt.Sprintf("count%d", m), f.Results()[1].Type(), role{kind: roleCount,
			rank: rank, index: m}))
	}
	weight := u.scalar("weight", f.Results()[0].Type(), role{kind: roleScale, rank: rank})
	return op.Div(sum, count), op.Reciprocal(op.Mul(count, weight))
}

// at returns x on a mesh, in a layout.
func (u *updater) at(x *ir.Value, m *mesh.Mesh, s mesh.Spec) *ir.Value {
	return op.Constrain(x, m, mesh.Closed(s.With()))
}

func (u *updater) scalarAt(x *ir.Value, m *mesh.Mesh) *ir.Value { return u.at(x, m, mesh.Whole(0)) }

// group holds weights that are updated on one mesh.
type group struct {
	mesh    *mesh.Mesh
	weights []int
}

// groups returns the weights whose home is a rank, by their meshes.
func (u *updater) groups(rank int) (list []group) {
	for i, h := range u.homes {
		if h.rank != rank {
			continue
		}
		m := u.home(i).Mesh
		k := slices.IndexFunc(list, func(g group) bool { return g.mesh.Equal(m) })
		if k < 0 {
			k, list = len(list), append(list, group{mesh: m})
		}
		list[k].weights = append(list[k].weights, i)
	}
	return list
}

// norm returns the global gradient norm, on the first rank: each mesh's own squares are summed there.
func (u *updater) norm(grads []*ir.Value, loss *ir.Value) *ir.Value {
	var total *ir.Value
	first := u.c.Meshes[0]
	for rank := range u.c.Meshes {
		for _, g := range u.groups(rank) {
			var own []*ir.Value
			for _, i := range g.weights {
				if u.c.Weights[i].trainable() {
					own = append(own, grads[i])
				}
			}
			if len(own) == 0 {
				continue
			}
			squares := u.scalarAt(sumSquares(own), g.mesh)
			if !g.mesh.Equal(first) {
				squares = u.scalarAt(squares, first)
			}
			if total != nil {
				squares = op.Add(total, squares)
			}
			total = squares
		}
	}
	if total == nil { // there are no gradients
		return u.scalarAt(op.ZerosLike(loss), first)
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

// rank traces the update of the weights whose home is a mesh of a rank, and the copies that others need.
func (u *updater) rank(rank int, weights []*ir.Value, slots [][]*ir.Value, grads []*ir.Value,
	in UpdateIn) []*ir.Value {
	for _, i := range in.Index {
		in.Weights = append(in.Weights, u.at(weights[i], u.home(i).Mesh, u.home(i).Slot))
		in.Grads = append(in.Grads, grads[i])
		in.Slots = append(in.Slots, slots[i])
	}
	next := u.c.Update.Trace(in)
	var out []*ir.Value
	add := func(v *ir.Value, r role, s mesh.Spec) {
		out, u.results, u.specs = append(out, v), append(u.results, r), append(u.specs, s)
	}
	for k, i := range in.Index {
		w, home := &u.c.Weights[i], u.home(i)
		add(next.Weights[k], role{kind: roleWeight, rank: rank, weight: i}, home.Rest)
		for _, other := range u.homes[i].others {
			there := u.c.layouts(i, other)
			copied := u.at(u.at(next.Weights[k], home.Mesh, home.Rest), there.Mesh, there.Rest)
			add(copied, role{kind: roleWeight, rank: other, weight: i}, there.Rest)
		}
		for j, s := range next.Slots[k] {
			add(s, role{kind: roleSlot, rank: rank, weight: i, index: j}, w.slot(home, s.Type()))
		}
	}
	return out
}
