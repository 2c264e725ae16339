package sharding

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// checkExplicit compares how ops with fixed shardings run: the layouts of their operands and results and, if
// these differ, the bytes sent.
func checkExplicit(text json.RawMessage) shardyVerdict {
	var c shardyReshard
	if err := json.Unmarshal(text, &c); err != nil {
		return shardyVerdict{differs: err.Error()}
	}
	v := shardyVerdict{id: c.ID}
	x := &explicit{c: &c, b: ir.NewBuilder("main"), values: map[string]*ir.Value{},
		fixed: map[*ir.Value]op.Layout{}}
	if err := x.build(); err != nil {
		v.apart = err.Error()
		return v
	}
	ours, bytes, err := x.partition()
	if err != nil {
		v.differs = err.Error()
		return v
	}
	theirs, theirBytes, err := x.expected()
	if err != nil {
		v.apart = err.Error()
		return v
	}
	judgeMoves(&v, ours, theirs, bytes, theirBytes)
	if v.differs != "" && x.several() {
		v.apart, v.differs = "made of several ops here, each resharded by itself", ""
	}
	return v
}

// several reports whether an op of the case is more than one op here.
func (x *explicit) several() bool {
	for _, results := range x.last {
		for _, v := range results {
			if slices.ContainsFunc(v.Node().In(), func(in *ir.Value) bool { _, ok := x.fixed[in]; return !ok }) {
				return true
			}
		}
	}
	return false
}

// explicit is a case as a program with fixed Specs.
type explicit struct {
	c      *shardyReshard
	m      *mesh.Mesh // the first
	b      *ir.Builder
	values map[string]*ir.Value
	fixed  map[*ir.Value]op.Layout
	// last holds, for each op of the case, the values that are its results.
	last [][]*ir.Value
	data [][]int
}

func (x *explicit) build() error {
	if err := x.firstMesh(); err != nil {
		return err
	}
	for _, a := range x.c.Args {
		t, err := a.typ()
		if err != nil {
			return err
		}
		if err := x.fix(a, x.b.Param(a.ID, t)); err != nil {
			return err
		}
	}
	for _, o := range x.c.Ops {
		if err := x.op(o); err != nil {
			return err
		}
	}
	return x.b.Err()
}

// firstMesh sets the mesh of tensors without a sharding.
func (x *explicit) firstMesh() error {
	for _, t := range slices.Concat(x.c.Args, x.c.Returns) {
		if t.Sharding != nil {
			var err error
			x.m, err = x.c.Meshes[t.Sharding.Mesh].build()
			return err
		}
	}
	for _, o := range x.c.Ops {
		for _, t := range o.Results {
			if t.Sharding != nil {
				var err error
				x.m, err = x.c.Meshes[t.Sharding.Mesh].build()
				return err
			}
		}
	}
	return absent("no mesh")
}

func (x *explicit) fix(t shardyFixed, v *ir.Value) error {
	at, err := x.c.layout(t.Sharding, len(v.Shape()), x.m)
	if err != nil {
		return err
	}
	x.values[t.ID], x.fixed[v] = v, at
	return nil
}

// op adds the counterpart of an operation.
func (x *explicit) op(o shardyFixedOp) error {
	in, out := []ir.Type{}, []ir.Type{}
	for _, id := range o.Operands {
		if x.values[id] == nil {
			return absent("operand %s is no value", id)
		}
		in = append(in, x.values[id].Type())
	}
	for _, r := range o.Results {
		t, err := r.typ()
		if err != nil {
			return err
		}
		out = append(out, t)
	}
	t, err := x.translate(o, in, out)
	if err != nil {
		return err
	}
	args := make([]*op.Tensor, len(t.data))
	for i, d := range t.data {
		args[i] = x.values[o.Operands[d]]
	}
	results := t.build(args)
	if x.b.Err() != nil || len(results) < len(o.Results) {
		return absent("op %s on %v: no counterpart", o.Op, in)
	}
	for i, r := range o.Results {
		if !results[i].Shape().Equal(out[i].Shape) {
			return absent("op %s on %v: no counterpart", o.Op, in)
		}
		if err := x.fix(r, results[i]); err != nil {
			return err
		}
	}
	x.last, x.data = append(x.last, results[:len(o.Results)]), append(x.data, t.data)
	return nil
}

// translate returns the counterpart of an operation; a reshard is a value with another Spec.
func (x *explicit) translate(o shardyFixedOp, in, out []ir.Type) (*translation, error) {
	switch o.Op {
	case "sdy.reshard", "stablehlo.optimization_barrier":
		if len(in) == 1 {
			return hloUnary(op.Identity), nil
		}
	case "stablehlo.constant":
		return &translation{build: func([]*op.Tensor) []*op.Tensor {
			return []*op.Tensor{op.Full(x.b, out[0].DType, out[0].Shape, 0)}
		}}, nil
	}
	t, err := shardyOp{Op: o.Op, Target: o.Target, Operands: o.Operands, Attrs: o.Attrs}.translate(in, out)
	if err == nil && t.carried > 0 {
		return nil, absent("op %s of several operands at once does not exist", o.Op)
	}
	return t, err
}

// partition returns how our partition runs the ops, and the bytes that it sends.
func (x *explicit) partition() ([]string, float64, error) {
	var results []*ir.Value
	var returned []mesh.Spec
	for _, r := range x.c.Returns {
		v := x.values[r.Value]
		if r.Sharding != nil {
			at, err := x.c.layout(r.Sharding, len(v.Shape()), x.m)
			if err != nil {
				return nil, 0, err
			}
			if !at.Mesh.Equal(x.fixed[v].Mesh) {
				v = op.Identity(v)
				x.fixed[v] = at
			}
			returned = append(returned, at.Spec)
		} else {
			returned = append(returned, x.fixed[v].Spec)
		}
		results = append(results, v)
	}
	f, err := x.b.Build(results...)
	if err != nil {
		return nil, 0, err
	}
	var best []string
	least := math.Inf(1)
	for _, between := range []func(*ir.Func) ([]mesh.Spec, error){x.inferred, x.backward} {
		ways, bytes, err := x.run(f, between, returned)
		if err != nil {
			return nil, 0, err
		}
		if bytes < least {
			best, least = ways, bytes
		}
	}
	return best, least, nil
}

// run partitions with Specs for the values that have no fact.
func (x *explicit) run(f *ir.Func, between func(*ir.Func) ([]mesh.Spec, error),
	returned []mesh.Spec) ([]string, float64, error) {
	specs, err := between(f)
	if err != nil {
		return nil, 0, err
	}
	meshes := make([]*mesh.Mesh, f.NumValues())
	for v, at := range x.fixed {
		specs[v.ID()], meshes[v.ID()] = at.Spec, at.Mesh
	}
	p, err := spmd.Partition(f, specs, x.m, spmd.Config{Prices: byBytes(), Meshes: meshes, Results: returned})
	if err != nil {
		return nil, 0, err
	}
	bytes := 0.0
	for _, i := range p.Inserted() {
		bytes += i.Move.Cost.Bytes
	}
	return x.ways(f, p), bytes, nil
}

// inferred returns Specs that follow from all that are fixed.
func (x *explicit) inferred(f *ir.Func) ([]mesh.Spec, error) {
	c := shard.Config{Mesh: x.m, Values: map[int]mesh.Sharding{}}
	for v, at := range x.fixed {
		if at.Mesh.Equal(x.m) {
			c.Values[v.ID()] = mesh.Closed(at.Spec)
		}
	}
	r, err := shard.Infer(f, c)
	if err != nil {
		return nil, err
	}
	return r.Specs, nil
}

// backward returns Specs that follow from those of results.
func (x *explicit) backward(f *ir.Func) ([]mesh.Spec, error) {
	specs := make([]mesh.Spec, f.NumValues())
	for _, v := range f.Params() {
		specs[v.ID()] = x.fixed[v].Spec
	}
	for _, n := range slices.Backward(f.Nodes()) {
		var in, out []ir.Type
		var want []mesh.Spec
		m := x.m
		for _, v := range n.In() {
			in = append(in, v.Type())
		}
		for _, v := range n.Out() {
			if at, ok := x.fixed[v]; ok {
				specs[v.ID()], m = at.Spec, at.Mesh
			} else if specs[v.ID()].Dims == nil {
				specs[v.ID()] = mesh.Whole(len(v.Shape()))
			}
			out, want = append(out, v.Type()), append(want, specs[v.ID()].With())
		}
		s, err := shard.Backward(n.Op().(op.Op), m, in, out, want)
		if err != nil {
			return nil, err
		}
		for i, v := range n.In() {
			if _, ok := x.fixed[v]; !ok {
				specs[v.ID()] = s.In[i].With()
			}
		}
	}
	return specs, nil
}

// ways returns how each op of the case runs: in what layouts its nodes read its operands and return its
// results.
func (x *explicit) ways(f *ir.Func, p *spmd.Program) []string {
	var list []string
	first := 0
	for k, results := range x.last {
		need, give := make([]mesh.Spec, len(x.data[k])), make([]mesh.Spec, len(results))
		node := first
		for ; node < len(f.Nodes()) && !used(give); node++ {
			n := f.Nodes()[node]
			takes, gives := p.How(node)
			for i, d := range x.data[k] {
				if at := slices.Index(n.In(), x.values[x.c.Ops[k].Operands[d]]); at >= 0 && need[i].Dims == nil {
					need[i] = takes[at]
				}
			}
			for i, v := range results {
				if at := slices.Index(n.Out(), v); at >= 0 {
					give[i] = gives[at]
				}
			}
		}
		first = node
		if x.c.Ops[k].Op != "sdy.reshard" {
			list = append(list, x.way(k, need, give))
		}
	}
	return list
}

// used reports whether all Specs are known; those of scalars always count as known.
func used(specs []mesh.Spec) bool {
	return !slices.ContainsFunc(specs, func(s mesh.Spec) bool { return s.Dims == nil })
}

// way returns how one op runs, in words.
func (x *explicit) way(k int, need, give []mesh.Spec) string {
	words := []string{}
	for i, s := range need {
		if i < len(x.data[k]) {
			words = append(words, s.With().Simplify(x.on(k),
				x.values[x.c.Ops[k].Operands[x.data[k][i]]].Shape()).String())
		}
	}
	words = append(words, "->")
	for i, s := range give {
		if i < len(x.last[k]) {
			words = append(words, s.With().Simplify(x.on(k), x.last[k][i].Shape()).String())
		}
	}
	return strings.TrimPrefix(x.c.Ops[k].Op, "stablehlo.") + " " + strings.Join(words, " ")
}

// on returns the mesh on which an op runs.
func (x *explicit) on(k int) *mesh.Mesh { return x.fixed[x.last[k][0]].Mesh }

// runs reports whether an op can run with these layouts without communication of its own. Shardy inserts halo
// exchanges and the like later.
func (x *explicit) runs(k int, need, give []mesh.Spec) bool {
	n := x.last[k][0].Node()
	if n == nil || len(n.In()) != len(need) || len(n.Out()) < len(give) {
		return true
	}
	in, out := shapesOf(n.In()), shapesOf(n.Out())
	types := make([]ir.Type, len(in))
	for i, v := range n.In() {
		if v != x.values[x.c.Ops[k].Operands[x.data[k][i]]] {
			return true // it is made of several
		}
		types[i] = v.Type()
	}
	rule, err := n.Op().(op.Op).Rule(types).Bind(in, out)
	if err != nil {
		return false
	}
	wants := make([]mesh.Projection, rule.NumTensors())
	all := slices.Concat(need, give)
	for t, s := range all {
		if wants[t], err = rule.Project(x.on(k), t, s); err != nil {
			return false
		}
	}
	a, _ := rule.Resolve(x.on(k), wants)
	shapes := slices.Concat(in, out)
	for t, s := range all {
		if !rule.Spec(x.on(k), t, a).With().Equal(s.With().Simplify(x.on(k), shapes[t])) {
			return false
		}
	}
	return true
}

func shapesOf(vs []*ir.Value) [][]int {
	list := make([][]int, len(vs))
	for i, v := range vs {
		list[i] = v.Shape()
	}
	return list
}
