package ir

import (
	"errors"
	"fmt"
)

// autograd is the state of an eager tensor for Backward. When an update replaces a parameter's value, the new
// value takes it over.
type autograd struct {
	grad *Value
	// retain requests the gradient of a value that is not a leaf.
	retain bool
	hooks  []func(dy *Value) *Value
	// fused is the op that has replaced the ops around v: no gradient reaches v.
	fused string
	// place, if set, returns a gradient of a leaf in the layout in which it is kept.
	place func(g *Value) *Value
}

func (v *Value) autograd() *autograd {
	if v.auto == nil {
		v.auto = new(autograd)
	}
	return v.auto
}

// Backward adds the gradients of v, a scalar computed in an eager session, to the Grad of all tracked tensors
// that it was computed from. It releases what was kept for it, so it can be called once; op.Backward can keep
// it, and accepts values that are not scalars.
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

// Grad returns the sum of the gradients that Backward has added since the last ClearGrad; nil before the
// first.
func (v *Value) Grad() *Value {
	if v.auto == nil {
		return nil
	}
	return v.auto.grad
}

// SetGrad sets v's gradient; nil clears it.
func (v *Value) SetGrad(g *Value) {
	if g != nil || v.auto != nil {
		v.autograd().grad = g
	}
}

// ClearGrad clears v's gradient.
func (v *Value) ClearGrad() { v.SetGrad(nil) }

// RetainGrad makes Backward keep the gradient of a tensor that was computed from tracked ones; leaves have
// theirs anyway.
func (v *Value) RetainGrad() error {
	if err := v.watchable("retain_grad"); err != nil {
		return err
	}
	v.autograd().retain = true
	return nil
}

// OnGrad registers f to be called with each gradient of v, as PyTorch's register_hook does. If f returns a
// value, it replaces the gradient.
func (v *Value) OnGrad(f func(dy *Value) *Value) error {
	if err := v.watchable("on_grad"); err != nil {
		return err
	}
	v.autograd().hooks = append(v.autograd().hooks, f)
	return nil
}

// watchable returns an error for a tensor that never gets a gradient with data.
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

// Watched reports whether v, which is not a leaf, has hooks or retains its gradient.
func Watched(v *Value) bool { return v.auto != nil && (v.auto.retain || len(v.auto.hooks) > 0) }

// FuseInto records that the ops around v were fused: later requests for its gradient are errors.
func FuseInto(v *Value, op string) { v.autograd().fused = op }

// RetainsGrad reports whether Backward keeps the gradient of v, which is not a leaf.
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

// PlaceGrad sets the layout in which gradients of a leaf are kept, instead of its own.
func (v *Value) PlaceGrad(f func(g *Value) *Value) { v.autograd().place = f }

// GradPlace returns the function given to PlaceGrad.
func (v *Value) GradPlace() func(g *Value) *Value {
	if v.auto == nil {
		return nil
	}
	return v.auto.place
}

// Follow makes v the next value of a leaf: it takes over the leaf's gradient and hooks.
func (v *Value) Follow(old *Value) *Value {
	v.auto = old.auto
	return v
}

// Release drops the node's operands, so that their memory can be freed; by is the line that did so.
func (n *Node) Release(by Pos) { n.in, n.out, n.released, n.by = nil, nil, true, by }

// Released reports whether the node's operands were dropped, and the line that did so.
func (n *Node) Released() (by Pos, ok bool) { return n.by, n.released }
