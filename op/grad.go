package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Grad returns the gradient of Σ⟨ys, dys⟩ with respect to each of xs; nil dys means ones. The results are
// computed by ordinary ops, so they can be differentiated again. If no y depends on x, its gradient is zeros.
func Grad(ys, dys, xs []*Tensor) []*Tensor { return gradient(ys, dys, xs, walk{view: keepHistory}) }

// GradOnce is like Grad for eager tensors without higher derivatives: the results have no history, so
// intermediate memory is freed along the way. On traced tensors it is Grad.
func GradOnce(ys, dys, xs []*Tensor) []*Tensor {
	return gradient(ys, dys, xs, walk{view: (*Tensor).Detach})
}

func keepHistory(x *Tensor) *Tensor { return x }

func gradient(ys, dys, xs []*Tensor, w walk) []*Tensor {
	for _, t := range append(slices.Clone(ys), xs...) {
		if t.Err() != nil {
			return slices.Repeat([]*Tensor{t}, len(xs))
		}
	}
	if bad := untracked(xs); bad != nil {
		return slices.Repeat([]*Tensor{bad}, len(xs))
	}
	w.find(ys, xs)
	if w.released != nil {
		return slices.Repeat([]*Tensor{ir.Invalid(ys[0].Scope(), releasedError(w.released))}, len(xs))
	}
	for i, y := range ys {
		if dys != nil {
			w.add(y, dys[i])
		} else {
			w.add(y, w.view(onesAt(y)))
		}
	}
	for _, n := range w.order {
		w.visit(n)
		if w.release != nil {
			w.release(n)
		}
	}
	return w.collect(xs)
}

// releasedError reports which call released the values that a gradient needs.
func releasedError(n *ir.Node) error {
	by, _ := n.Released()
	return &ir.Error{Pos: ir.Caller(), Op: "backward", Err: fmt.Errorf(
		"what the gradient goes through was given back by Backward at %s: compute the loss again, add losses "+
			"before one Backward, or keep it there with op.Backward and RetainGraph", by)}
}

// untracked returns an invalid tensor if some eager x was never tracked. Without this check its gradient
// would silently be zeros, because nothing computed from it has a history.
func untracked(xs []*Tensor) *Tensor {
	for i, x := range xs {
		if x.Store() != nil && !x.Tracked() {
			return ir.Invalid(x.Scope(), &ir.Error{Pos: ir.Caller(), Op: "grad", Err: fmt.Errorf(
				"tensor %d, %v, is not tracked: take x = x.Track() before computing with it", i, x.Type())})
		}
	}
	return nil
}

// onesAt returns OnesLike with y's position in the program.
func onesAt(y *Tensor) *Tensor {
	if b, ok := y.Scope().(*ir.Builder); ok && y.Node() != nil {
		defer b.At(y.Node().Pos())()
	}
	return OnesLike(y)
}

// walk is one reverse pass. It holds the adjoints of the values between xs and ys.
type walk struct {
	// view returns a value as the VJPs see it: with or without its history.
	view func(*Tensor) *Tensor
	// barrier stops the search at xs, because none of them depends on another.
	barrier bool
	// release, if set, is called with each node that the walk is done with; partly omits zeros for gradients
	// that do not exist.
	release func(n *ir.Node)
	partly  bool
	// gone is a node on the way whose operands have been released.
	released *ir.Node
	target   map[*Tensor]bool
	reaches  map[*ir.Node]bool
	order    []*ir.Node
	adjoints map[*Tensor]*Tensor
}

// find collects the nodes on paths from xs to ys, last first.
func (w *walk) find(ys, xs []*Tensor) {
	w.target, w.reaches, w.adjoints = map[*Tensor]bool{}, map[*ir.Node]bool{}, map[*Tensor]*Tensor{}
	for _, x := range xs {
		w.target[x] = true
	}
	for _, y := range ys {
		if n := y.Node(); n != nil && !(w.barrier && w.target[y]) {
			w.explore(n)
		}
	}
	for n, ok := range w.reaches {
		if ok {
			w.order = append(w.order, n)
		}
	}
	slices.SortFunc(w.order, func(a, b *ir.Node) int { return b.Seq() - a.Seq() })
}

// explore determines for n and its ancestors whether they depend on some x. It keeps its own stack, because
// the history of a deep model is too long for recursion.
func (w *walk) explore(root *ir.Node) {
	type frame struct {
		n    *ir.Node
		next int
	}
	if _, seen := w.reaches[root]; seen {
		return
	}
	w.reaches[root] = false
	w.passing(root)
	stack := []frame{{n: root}}
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		if f.next == len(f.n.In()) {
			stack = stack[:len(stack)-1]
			if len(stack) > 0 && w.reaches[f.n] {
				w.reaches[stack[len(stack)-1].n] = true
			}
			continue
		}
		v := f.n.In()[f.next]
		f.next++
		if w.target[v] {
			w.reaches[f.n] = true
			if w.barrier {
				continue
			}
		}
		n := v.Node()
		if n == nil {
			continue
		}
		if ok, seen := w.reaches[n]; seen {
			w.reaches[f.n] = w.reaches[f.n] || ok
			continue
		}
		w.reaches[n] = false
		w.passing(n)
		stack = append(stack, frame{n: n})
	}
}

// passing records a node whose operands have been released, which gradients cannot pass.
func (w *walk) passing(n *ir.Node) {
	if _, released := n.Released(); released && w.released == nil {
		w.released = n
	}
}

func (w *walk) add(v, d *Tensor) {
	if old := w.adjoints[v]; old != nil {
		d = Add(old, toMeshOf(old, d))
	}
	w.adjoints[v] = d
}

// toMeshOf reshards y to the mesh of x, because eager data may have been used on several meshes. If they have
// the same shape it gets the layout of x; otherwise it is replicated.
func toMeshOf(x, y *Tensor) *Tensor {
	to, ok := LayoutOf(x)
	from, moved := LayoutOf(y)
	if !ok || !moved || from.Mesh.Equal(to.Mesh) {
		return y
	}
	spec := mesh.Whole(len(y.Shape()))
	if x.Shape().Equal(y.Shape()) {
		spec = to.Spec.With()
	}
	return Reshard(y, from, Layout{Mesh: to.Mesh, Spec: spec})
}

// visit propagates the adjoints of n's results to its operands.
func (w *walk) visit(n *ir.Node) {
	var first *Tensor
	dout := make([]*Tensor, len(n.Out()))
	for i, v := range n.Out() {
		d := w.adjoints[v]
		if d != nil {
			d = v.Hooked(d)
		}
		if d != nil && first == nil {
			first, dout[i] = d, d
		} else if d != nil {
			dout[i] = toMeshOf(first, d)
		}
		if !w.target[v] {
			delete(w.adjoints, v)
		} else if d != nil {
			w.adjoints[v] = d
		}
	}
	if first == nil {
		return
	}
	if b, ok := n.Out()[0].Scope().(*ir.Builder); ok {
		defer b.At(n.Pos())()
	}
	for i, d := range w.vjp(n, dout) {
		if v := n.In()[i]; d != nil && (w.target[v] || v.Node() != nil && w.reaches[v.Node()]) {
			w.add(v, d)
		}
	}
}

// vjp returns the adjoints of n's operands. An error propagates to all of them: an op that looks at the type
// of an invalid tensor might see no gradient in it.
func (w *walk) vjp(n *ir.Node, dout []*Tensor) []*Tensor {
	if i := slices.IndexFunc(dout, func(d *Tensor) bool { return d != nil && d.Err() != nil }); i >= 0 {
		return slices.Repeat(dout[i:i+1], len(n.In()))
	}
	return n.Op().(Op).VJP(w.views(n.In()), w.views(n.Out()), dout)
}

func (w *walk) views(vs []*Tensor) []*Tensor {
	out := make([]*Tensor, len(vs))
	for i, v := range vs {
		out[i] = w.view(v)
	}
	return out
}

func (w *walk) collect(xs []*Tensor) []*Tensor {
	grads := make([]*Tensor, len(xs))
	for i, x := range xs {
		switch grads[i] = w.adjoints[x]; {
		case grads[i] == nil && !w.partly:
			grads[i] = ZerosLike(x)
		case grads[i] != nil && !w.visited(x):
			grads[i] = x.Hooked(grads[i])
		}
	}
	return grads
}

// visited reports whether the walk has passed x and called its hooks.
func (w *walk) visited(x *Tensor) bool { return x.Node() != nil && w.reaches[x.Node()] }

// separate gives each operand an identity of its own with respect to which gradients can be taken, even if
// operands are the same tensor.
func separate(in []*Tensor) []*Tensor {
	out := make([]*Tensor, len(in))
	for i, x := range in {
		out[i] = Identity(x)
		if !out[i].Tracked() {
			out[i] = out[i].Track()
		}
	}
	return out
}

// vjpByParts returns the gradient of a composite through its decomposition.
func vjpByParts(o Composite, in, dout []*Tensor) []*Tensor {
	leaves := separate(in)
	ys := o.Decompose(leaves)
	var used, dys []*Tensor
	for i, d := range dout {
		if d != nil {
			used, dys = append(used, ys[i]), append(dys, d)
		}
	}
	grads := make([]*Tensor, len(in))
	var xs []*Tensor
	for _, x := range leaves {
		if x.DType().IsFloat() {
			xs = append(xs, x)
		}
	}
	got := gradient(used, dys, xs, walk{view: keepHistory, barrier: true})
	for i, x := range leaves {
		if x.DType().IsFloat() {
			grads[i], got = got[0], got[1:]
		}
	}
	return grads
}
