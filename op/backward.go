package op

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
)

// BackwardConfig configures Backward.
type BackwardConfig struct {
	// RetainGraph keeps the intermediate values that gradients are computed from, so that Backward can be called
	// again.
	RetainGraph bool
}

// Backward adds the gradients of Σ⟨ys, dys⟩ to Grad of all tracked eager tensors that ys were computed from.
// Nil dys means ones, for scalars. A tensor that no gradient reaches keeps its Grad. Memory of intermediate
// values is freed along the way. Gradients of 16-bit tensors are accumulated in f32.
func Backward(ys, dys []*Tensor, c BackwardConfig) error {
	if err := checkBackward(ys, dys); err != nil {
		return err
	}
	leaves, gone := gradTargets(ys)
	if gone != nil {
		return releasedError(gone)
	}
	by := ir.Caller()
	w := walk{view: (*Tensor).Detach, partly: true}
	if !c.RetainGraph {
		w.release = func(n *ir.Node) { n.Release(by) }
	}
	grads := gradient(ys, dys, leaves, w)
	for _, g := range grads {
		if g != nil && g.Err() != nil {
			return g.Err()
		}
	}
	return accumulate(leaves, grads)
}

// accumulate adds gradients to those of earlier passes. If one of them is invalid, none is added.
func accumulate(leaves, grads []*Tensor) error {
	sums := make([]*Tensor, len(leaves))
	for i, x := range leaves {
		if grads[i] == nil {
			continue
		}
		g := placedGrad(x, grads[i])
		if old := x.Grad(); old != nil {
			wide := old.DType().Compute()
			g = Add(Cast(old, wide), Cast(toMeshOf(old, g), wide))
		}
		if g.Err() != nil {
			return g.Err()
		}
		sums[i] = g.Detach()
	}
	for i, x := range leaves {
		if sums[i] != nil {
			x.SetGrad(sums[i])
		}
	}
	return nil
}

// placedGrad returns a gradient in the layout in which x keeps its gradient: the requested one, or that of
// its data.
func placedGrad(x, g *Tensor) *Tensor {
	if f := x.GradPlace(); f != nil {
		return f(g)
	}
	if s, ok := x.Scope().(interface{ GradAt(x, g *Tensor) *Tensor }); ok {
		return s.GradAt(x, g)
	}
	return g
}

func checkBackward(ys, dys []*Tensor) error {
	fail := func(format string, args ...any) error {
		return &ir.Error{Pos: ir.Caller(), Op: "backward", Err: fmt.Errorf(format, args...)}
	}
	if len(ys) == 0 || dys != nil && len(dys) != len(ys) {
		return fail("got %d tensors and %d weights: want one weight for each tensor, or none", len(ys), len(dys))
	}
	tracked := false
	for i, y := range ys {
		switch {
		case y == nil:
			return fail("tensor %d is nil", i)
		case y.Err() != nil:
			return y.Err()
		case y.Store() == nil:
			return fail("tensor %d, %v, is traced: take op.Grad of it, or compute it in a session", i, y.Type())
		case !y.DType().IsFloat():
			return fail("got %v, want floats", y.Type())
		case dys == nil && len(y.Shape()) > 0:
			return fail("got %v, want a scalar: reduce it with op.Mean or op.Sum, or give op.Backward weights",
				y.Type())
		case dys != nil && (dys[i] == nil || dys[i].Err() == nil && !dys[i].Type().Equal(y.Type())):
			return fail("weights of tensor %d: want %v", i, y.Type())
		}
		tracked = tracked || y.Tracked()
	}
	if !tracked {
		return &ir.Error{Pos: ir.Caller(), Op: "backward", Err: errors.New("it was computed from no tracked " +
			"tensor: compute it from parameters' values, or from x.Track()")}
	}
	return nil
}

// gradTargets returns the tracked tensors that ys were computed from and that keep a gradient, in order of
// discovery, and a node whose graph has been released already, if there is one.
func gradTargets(ys []*Tensor) (list []*Tensor, gone *ir.Node) {
	seen := map[*Tensor]bool{}
	todo := append([]*Tensor(nil), ys...)
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[v] || !v.Tracked() || !v.DType().IsFloat() {
			continue
		}
		seen[v] = true
		n := v.Node()
		if n == nil || v.RetainsGrad() {
			list = append(list, v)
		}
		if n == nil {
			continue
		}
		if _, released := n.Released(); released {
			return nil, n
		}
		todo = append(todo, n.In()...)
	}
	return list, nil
}
