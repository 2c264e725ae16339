package ir

// Func is a program: parameters, nodes in an order in which each operand comes before its use, results. It is
// never changed once built.
type Func struct {
	name     string
	params   []*Value
	nodes    []*Node
	results  []*Value
	captures []*Value
	values   int
}

// Name returns the program's name.
func (f *Func) Name() string { return f.name }

// Params returns the program's parameters, the captured ones last; the slice must not be changed.
func (f *Func) Params() []*Value { return f.params }

// Captures returns the eager values that the trace captured, in the order of the last parameters, which
// represent them.
func (f *Func) Captures() []*Value { return f.captures }

// Nodes returns the program's nodes in order; the slice must not be changed.
func (f *Func) Nodes() []*Node { return f.nodes }

// Results returns the program's results; the slice must not be changed.
func (f *Func) Results() []*Value { return f.results }

// NumValues returns the number of values: IDs are 0 to NumValues-1, so side tables are slices.
func (f *Func) NumValues() int { return f.values }

// number assigns every value its dense ID: params first, then results in program order.
func (f *Func) number() {
	id := 0
	for _, p := range f.params {
		p.id = id
		id++
	}
	for _, n := range f.nodes {
		for _, v := range n.out {
			v.id = id
			id++
		}
	}
	f.values = id
}

// Replay adds f's nodes to scope with args for its parameters and returns the values of its results. apply is
// called for each node, so that a pass can change some of them; nil applies the op unchanged.
func (f *Func) Replay(scope Scope, args []*Value, apply func(n *Node, in []*Value) []*Value) []*Value {
	if apply == nil {
		apply = func(n *Node, in []*Value) []*Value { return scope.Apply(n.op, in) }
	}
	env := make([]*Value, f.values)
	for i, p := range f.params {
		env[p.id] = args[i]
	}
	b, _ := scope.(*Builder)
	for _, n := range f.nodes {
		in := make([]*Value, len(n.in))
		for i, v := range n.in {
			in[i] = env[v.id]
		}
		out := replayNode(b, n, in, apply)
		for i, v := range n.out {
			env[v.id] = out[i]
		}
	}
	results := make([]*Value, len(f.results))
	for i, v := range f.results {
		results[i] = env[v.id]
	}
	return results
}

func replayNode(b *Builder, n *Node, in []*Value, apply func(*Node, []*Value) []*Value) []*Value {
	if b != nil {
		defer b.At(n.pos)()
	}
	return apply(n, in)
}

// Rewrite returns a new program with f's parameters and captures, and its nodes replaced by apply.
func (f *Func) Rewrite(apply func(b *Builder, n *Node, in []*Value) []*Value) (*Func, error) {
	b := NewBuilder(f.name)
	args := b.ParamsOf(f)
	results := f.Replay(b, args, func(n *Node, in []*Value) []*Value { return apply(b, n, in) })
	return b.Build(results...)
}

// WithResults returns the program with other results of its own values; all values keep their IDs.
func (f *Func) WithResults(results []*Value) (*Func, error) {
	g := *f
	g.results = results
	return g.Rewrite(func(b *Builder, n *Node, in []*Value) []*Value { return b.Apply(n.op, in) })
}

// Reordered returns the program with its nodes in another order; each must come after those that it
// reads.
func (f *Func) Reordered(order []int) (*Func, error) {
	g := *f
	g.nodes = make([]*Node, len(order))
	for i, n := range order {
		g.nodes[i] = f.nodes[n]
	}
	return g.Rewrite(func(b *Builder, n *Node, in []*Value) []*Value { return b.Apply(n.op, in) })
}

// ParamsOf adds f's parameters to b, keeping their names and captures.
func (b *Builder) ParamsOf(f *Func) []*Value {
	own := len(f.params) - len(f.captures)
	args := make([]*Value, len(f.params))
	for i, p := range f.params {
		args[i] = b.Param(p.name, p.typ)
		if i >= own {
			src := f.captures[i-own]
			b.captured[src] = args[i]
			b.sources = append(b.sources, src)
		}
	}
	return args
}
