package step

import (
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// bucket merges the small collectives of a program that have the same kind, dtype and group into buckets:
// all-reduces, reduce-scatters and all-gathers, up to the bytes that most allows for such a collective. A
// collective waits until its bucket is full or one of its results is needed; collectives on parameters, which
// are available from the start, then fill the rest of it. Collectives treat every element independently, so
// the results are the same.
func bucket(f *ir.Func, most func(op.Collective) int) (*ir.Func, error) {
	defer fault.Pass("bucket", f)
	b := ir.NewBuilder(f.Name())
	x := &bucketer{f: f, b: b, most: most, env: make([]*ir.Value, f.NumValues()),
		later: make([]func() *ir.Value, f.NumValues()), in: make([]*openBucket, f.NumValues()),
		open: map[string]*openBucket{}}
	for i, v := range b.ParamsOf(f) {
		x.env[i] = v
	}
	for i, n := range f.Nodes() {
		x.node(i, n)
	}
	results := make([]*ir.Value, len(f.Results()))
	for i, v := range f.Results() {
		results[i] = x.value(v)
	}
	return b.Build(results...)
}

// openBucket is a bucket of collectives.
type openBucket struct {
	key         string
	nodes       []*ir.Node
	at          int // the last node's number
	bytes, most int
}

type bucketer struct {
	f    *ir.Func
	b    *ir.Builder
	most func(op.Collective) int
	// env maps the old program's IDs to values of the new one; later makes those of sent buckets, and in is the
	// bucket of those that have not been sent.
	env   []*ir.Value
	later []func() *ir.Value
	in    []*openBucket
	open  map[string]*openBucket
}

func (x *bucketer) node(i int, n *ir.Node) {
	id := n.Out()[0].ID()
	if x.env[id] != nil || x.later[id] != nil || x.in[id] != nil {
		return // it was sent with an earlier one
	}
	if key, most, ok := x.joins(n); ok {
		x.put(i, n, key, most)
		return
	}
	in := make([]*ir.Value, len(n.In()))
	for k, v := range n.In() {
		in[k] = x.value(v)
	}
	defer x.b.At(n.Pos())()
	for k, v := range x.b.Apply(n.Op(), in) {
		x.env[n.Out()[k].ID()] = v
	}
}

// joins reports whether a node may be merged with others, with its key and the size of a bucket.
func (x *bucketer) joins(n *ir.Node) (key string, most int, ok bool) {
	c, is := n.Op().(op.Bucketer)
	if !is || n.In()[0].Shape().Len() == 0 {
		return "", 0, false
	}
	if key, ok = c.BucketKey(); !ok {
		return "", 0, false
	}
	most = x.most(c)
	return n.In()[0].DType().String() + key, most, size(n) <= most
}

// size returns the bytes of the larger side of a collective.
func size(n *ir.Node) int { return max(n.In()[0].Type().Bytes(), n.Out()[0].Type().Bytes()) }

// put adds a collective to the bucket of its key; a full one is sent first.
func (x *bucketer) put(i int, n *ir.Node, key string, most int) {
	x.value(n.In()[0])
	g := x.open[key]
	if g != nil && g.bytes+size(n) > g.most {
		x.send(g)
		g = nil
	}
	if g == nil {
		g = &openBucket{key: key, most: most}
		x.open[key] = g
	}
	g.add(i, n)
	x.in[n.Out()[0].ID()] = g
}

func (g *openBucket) add(i int, n *ir.Node) {
	g.nodes, g.at, g.bytes = append(g.nodes, n), max(g.at, i), g.bytes+size(n)
}

// send sends a bucket, filled with what is available already.
func (x *bucketer) send(g *openBucket) {
	delete(x.open, g.key)
	x.fill(g)
	in := make([]*ir.Value, len(g.nodes))
	for i, n := range g.nodes {
		in[i] = x.value(n.In()[0])
		x.in[n.Out()[0].ID()] = nil
	}
	first := g.nodes[0]
	defer x.b.At(first.Pos())()
	if len(g.nodes) == 1 {
		x.env[first.Out()[0].ID()] = x.b.Apply(first.Op(), in)[0]
		return
	}
	for i, result := range op.Bucket(g.nodes, in) {
		x.later[g.nodes[i].Out()[0].ID()] = result
	}
}

// fill adds later collectives whose operands are parameters.
func (x *bucketer) fill(g *openBucket) {
	nodes := x.f.Nodes()
	for i := g.at + 1; i < len(nodes); i++ {
		n := nodes[i]
		if n.In() == nil || len(n.In()) != 1 || n.In()[0].Node() != nil {
			continue
		}
		key, _, ok := x.joins(n)
		if !ok || key != g.key || x.env[n.Out()[0].ID()] != nil || x.later[n.Out()[0].ID()] != nil {
			continue
		}
		if g.bytes+size(n) > g.most {
			return
		}
		g.add(i, n)
	}
}

// value returns v in the new program; its bucket is sent first if necessary.
func (x *bucketer) value(v *ir.Value) *ir.Value {
	id := v.ID()
	if g := x.in[id]; g != nil {
		x.send(g)
	}
	if x.env[id] == nil && x.later[id] != nil {
		restore := x.b.At(v.Node().Pos())
		x.env[id] = x.later[id]()
		restore()
	}
	return x.env[id]
}
