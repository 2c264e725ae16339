package ir

import (
	"errors"
	"fmt"
)

// autograd is what Backward and an eager tensor have to do with each other. A parameter hands it on to the
// value that an update gives it.
type autograd struct {
	grad *Value
	// retain asks for the gradient of a value that is no leaf.
	retain bool
	hooks  []func(dy *Value) *Value
	// fused is the op that has taken the place of those that v is between: no gradient passes v.
	fused string
	// place, if set, says the layout in which gradients of a leaf are kept.
	place func(g *Value) *Value
}

func (v *Value) autograd() *autograd {
	if v.auto == nil {
		v.auto = new(autograd)
	}
	return v.auto
}

// Backward adds the gradients of v, a scalar computed in an eager session, to all tracked tensors that it was
// computed from: their Grad. What was kept for it is given back, so it is called once; op.Backward can keep
// it, and takes what is no scalar.
func (v *Value) Backward() error {
	if v.err != nil {
		return v.err
	}
	s, ok := v.scope.(interface{ Backward(y *Value) error })
	if !ok {
		return &Error{Pos: Caller(), Op: "backward",
			Err: errors.New("a traced tensor has no data: take op.Grad of it, or compute it in a session")}
	}
	return s.Backward(v)
}

// Grad returns the sum of the gradients that Backward has brought since the last ClearGrad; nil before the
// first.
func (v *Value) Grad() *Value {
	if v.auto == nil {
		return nil
	}
	return v.auto.grad
}

// SetGrad puts g in the place of v's gradient; nil clears it.
func (v *Value) SetGrad(g *Value) {
	if g != nil || v.auto != nil {
		v.autograd().grad = g
	}
}

// ClearGrad forgets v's gradient.
func (v *Value) ClearGrad() { v.SetGrad(nil) }

// RetainGrad asks Backward for the gradient of a tensor that was computed from tracked ones; those have
// theirs anyway.
func (v *Value) RetainGrad() error {
	if err := v.watchable("retain_grad"); err != nil {
		return err
	}
	v.autograd().retain = true
	return nil
}

// OnGrad has f called with the gradient of v whenever one is taken, as PyTorch's register_hook does: it may
// look at it, and what it returns, where that is not nil, takes its place.
func (v *Value) OnGrad(f func(dy *Value) *Value) error {
	if err := v.watchable("on_grad"); err != nil {
		return err
	}
	v.autograd().hooks = append(v.autograd().hooks, f)
	return nil
}

// watchable refuses a tensor that no gradient with data will ever reach.
func (v *Value) watchable(what string) error {
	var err error
	switch {
	case v.err != nil:
		return v.err
	case v.store == nil && v.later == nil:
		err = errors.New("a traced tensor has no gradient with data to look at: train eagerly")
	case !v.tracked:
		err = fmt.Errorf("tensor %v is not tracked, so no gradient reaches it: "+
			"take x = x.Track() before computing with it", v.typ)
	case v.auto != nil && v.auto.fused != "":
		err = fmt.Errorf("tensor %v lies within %s, which has taken the place of the ops around it, so no "+
			"gradient reaches it: ask for it where it is computed, before derivatives are", v.typ, v.auto.fused)
	default:
		return nil
	}
	return &Error{Pos: Caller(), Op: what, Err: err}
}

// Watched reports whether somebody asks for the gradient of v, which is no leaf.
func Watched(v *Value) bool { return v.auto != nil && (v.auto.retain || len(v.auto.hooks) > 0) }

// FuseInto says that the ops around v have become one: later wishes for its gradient are refused.
func FuseInto(v *Value, op string) { v.autograd().fused = op }

// RetainsGrad reports whether Backward keeps the gradient of v, which is no leaf.
func (v *Value) RetainsGrad() bool { return v.auto != nil && v.auto.retain }

// Hooked returns the gradient dy of v after its hooks.
func (v *Value) Hooked(dy *Value) *Value {
	if v.auto == nil {
		return dy
	}
	for _, f := range v.auto.hooks {
		if d := f(dy); d != nil {
			dy = d
		}
	}
	return dy
}

// PlaceGrad says in which layout gradients of a leaf are kept, in place of its own.
func (v *Value) PlaceGrad(f func(g *Value) *Value) { v.autograd().place = f }

// GradPlace returns what PlaceGrad was given.
func (v *Value) GradPlace() func(g *Value) *Value {
	if v.auto == nil {
		return nil
	}
	return v.auto.place
}

// Follow makes v the next value of a leaf: it has the leaf's gradient and hooks from now on.
func (v *Value) Follow(old *Value) *Value {
	v.auto = old.auto
	return v
}

// Release forgets what the node was computed from, so that its memory can go; by is the line that says so.
func (n *Node) Release(by Pos) { n.in, n.out, n.released, n.by = nil, nil, true, by }

// Released reports whether the node's operands are gone, and the line that released them.
func (n *Node) Released() (by Pos, ok bool) { return n.by, n.released }
