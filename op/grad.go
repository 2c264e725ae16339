package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Grad returns the gradient of Σ⟨ys, dys⟩ with respect to each of xs; nil dys means ones. What it returns is
// made of ops like any other, so it can be differentiated again. Where no y depends on x the gradient is
// zeros.
func Grad(ys, dys, xs []*Tensor) []*Tensor { return gradient(ys, dys, xs, walk{view: keepHistory}) }

// GradOnce is like Grad for eager tensors when no higher derivative is wanted: the results do not remember
// how they were made, so memory goes back as the walk proceeds. On traced tensors it is Grad.
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
	if w.gone != nil {
		return slices.Repeat([]*Tensor{ir.Invalid(ys[0].Scope(), releasedError(w.gone))}, len(xs))
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

// releasedError says who gave back what a gradient would have been computed from.
func releasedError(n *ir.Node) error {
	by, _ := n.Released()
	return &ir.Error{Pos: ir.Caller(), Op: "backward", Err: fmt.Errorf(
		"what the gradient goes through was given back by Backward at %s: compute the loss again, add losses "+
			"before one Backward, or keep it there with op.Backward and RetainGraph", by)}
}

// untracked returns an invalid tensor if some eager x was never tracked: nothing computed from it remembers
// it, and its gradient would be zeros without a word.
func untracked(xs []*Tensor) *Tensor {
	for i, x := range xs {
		if x.Store() != nil && !x.Tracked() {
			return ir.Invalid(x.Scope(), &ir.Error{Pos: ir.Caller(), Op: "grad", Err: fmt.Errorf(
				"tensor %d, %v, is not tracked: take x = x.Track() before computing with it", i, x.Type())})
		}
	}
	return nil
}

// onesAt is like OnesLike with y's own place in a program.
func onesAt(y *Tensor) *Tensor {
	if b, ok := y.Scope().(*ir.Builder); ok && y.Node() != nil {
		defer b.At(y.Node().Pos())()
	}
	return OnesLike(y)
}

// walk is one reverse pass: adjoints of values between xs and ys.
type walk struct {
	// view is what the VJPs get to see of a value.
	view func(*Tensor) *Tensor
	// barrier stops the search at xs: what they were made from holds none of them.
	barrier bool
	// release, if set, is notified of each node that the walk is done with; partly leaves out zeros in place
	// of gradients that do not exist.
	release func(n *ir.Node)
	partly  bool
	// gone is a node on the way whose operands were given back.
	gone     *ir.Node
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

// explore decides for n and all that it depends on whether some x is among it. It keeps its own stack: a deep
// model's history is longer than a goroutine should recurse.
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

// passing remembers a node that gradients can no longer pass.
func (w *walk) passing(n *ir.Node) {
	if _, released := n.Released(); released && w.gone == nil {
		w.gone = n
	}
}

func (w *walk) add(v, d *Tensor) {
	if old := w.adjoints[v]; old != nil {
		d = Add(old, beside(old, d))
	}
	w.adjoints[v] = d
}

// beside returns y on the mesh of x: eager data that is on no mesh may have been used on several. It is laid
// as x where they have one shape, and else whole: the dims of another result say nothing of its own.
func beside(x, y *Tensor) *Tensor {
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

// visit passes the adjoints of n's results on to its operands.
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
			dout[i] = beside(first, d)
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

// vjp returns the adjoints of n's operands. A mistake continues to all of them: an op that asks for the type
// of what has none might see no gradient in it.
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

// visited reports whether the walk has passed x on, and called its hooks.
func (w *walk) visited(x *Tensor) bool { return x.Node() != nil && w.reaches[x.Node()] }

// separate gives each operand an identity of its own that gradients can be taken at, whatever the operands
// share.
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
