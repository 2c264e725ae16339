package eager

import (
	"fmt"
	"math"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// Step updates the parameters with their gradients, which stay until ClearGrad. If it returns an error,
// nothing has changed.
func (o *Optimizer) Step() error {
	_, err := o.step(1)
	return err
}

// step takes a step with the gradients of a loss that was multiplied by scale. It is skipped if the scale
// made them overflow.
func (o *Optimizer) step(scale float64) (skipped bool, err error) {
	list, err := o.reached()
	if err != nil {
		return false, place(err)
	}
	by, norm, err := o.numbers(list, scale)
	if err != nil {
		return false, place(err)
	}
	if skipped = scale > 1 && !finite(norm); skipped {
		o.steps++
		return true, nil
	}
	next := make([]update, len(list))
	for i, s := range list {
		if next[i], err = s.updated(o.by, by); err != nil {
			return false, place(fmt.Errorf("parameter %q: %w", s.param.Name, err))
		}
	}
	for i, s := range list {
		if err := s.take(next[i]); err != nil {
			return false, err
		}
	}
	o.steps, o.updates = o.steps+1, o.updates+1
	return false, nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// place returns an error with the user's line.
func place(err error) error {
	return &ir.Error{Pos: ir.Caller(), Op: "optimizer step", Err: err}
}

// reached returns the parameters that have a gradient; the others are an error, unless the config says
// otherwise.
func (o *Optimizer) reached() (list []*state, err error) {
	var missing []string
	for _, s := range o.states {
		if err := s.at.unchanged(s.param); err != nil {
			return nil, err
		}
		if s.param.Grad() == nil {
			missing = append(missing, s.param.Name)
			continue
		}
		list = append(list, s)
	}
	switch {
	case len(list) == 0:
		return nil, fmt.Errorf("none of %d parameters has a gradient: call Backward of a loss first, "+
			"and ClearGrad after Step", len(o.states))
	case len(missing) > 0 && !o.c.SkipUnreached:
		return nil, fmt.Errorf("no gradient has reached %d of %d parameters: %s: compute the loss from them, "+
			"freeze them with nn.Freeze, or set SkipUnreached", len(missing), len(o.states), firstNames(missing))
	}
	return list, nil
}

// firstNames returns the first of many names.
func firstNames(names []string) string {
	if len(names) > 4 {
		return strings.Join(names[:4], ", ") + fmt.Sprintf(" and %d more", len(names)-4)
	}
	return strings.Join(names, ", ")
}

// numbers returns what an update takes besides gradients, and their norm where it is asked for.
func (o *Optimizer) numbers(list []*state, scale float64) (by optim.Step, norm float64, err error) {
	one := o.scalar(1)
	by = optim.Step{LR: o.scalar(o.LR()), Count: o.scalar(float64(o.updates + 1)), Scale: one}
	if o.c.ClipNorm == 0 && scale == 1 {
		return by, 0, nil
	}
	total := globalNorm(list)
	if scale != 1 {
		total = op.Mul(total, op.Cast(o.scalar(1/scale), total.DType()))
	}
	if o.c.ClipNorm > 0 {
		by.Scale = optim.ClipScale(total, o.c.ClipNorm)
	}
	if scale != 1 {
		by.Scale = op.Mul(by.Scale, op.Cast(o.scalar(1/scale), by.Scale.DType()))
	}
	a, err := runtime.Read(total)
	if err != nil {
		return by, 0, err
	}
	return by, a.At(0), nil
}

// scalar returns a number as an update takes it: in f64 for f64 parameters, else in f32.
func (o *Optimizer) scalar(x float64) *op.Tensor {
	if o.params[0].Type.DType == array.F64 {
		return o.scope.Tensor(array.Scalar(x))
	}
	return o.scope.Tensor(array.Scalar(float32(x)))
}

// GradNorm returns the current global gradient norm.
func (o *Optimizer) GradNorm() (float64, error) {
	list, err := o.reached()
	if err != nil {
		return 0, place(err)
	}
	a, err := runtime.Read(globalNorm(list))
	if err != nil {
		return 0, place(err)
	}
	return a.At(0), nil
}

// globalNorm returns optim.GlobalNorm of gradients that may be on several meshes: their sums of squares meet
// as plain data.
func globalNorm(list []*state) *op.Tensor {
	var total *op.Tensor
	for _, s := range list {
		square := op.SumSquares(s.param.Grad())
		if w, ok := square.Scope().(*runtime.Session); ok {
			square = w.Gathered(square)
		}
		if total == nil {
			total = square
		} else {
			total = op.Add(total, square)
		}
	}
	return op.Sqrt(total)
}

// update is a parameter after a step.
type update struct {
	value *op.Tensor
	slots []*op.Tensor
}

// updated returns the parameter's next value and slots, each where it rests.
func (s *state) updated(by optim.Optimizer, at optim.Step) (u update, err error) {
	p, grad := s.at.update(s.param.Value.Detach()), s.at.update(s.param.Grad())
	next, slots := optim.For(by, s.param.Name).Update(p, grad, s.slots, at)
	u = update{value: s.at.parameter(next).Detach()}
	for i, x := range slots {
		u.slots = append(u.slots, alike(x, s.slots[i]).Detach())
	}
	for _, x := range append(u.slots, u.value) {
		if x.Err() != nil {
			return u, x.Err()
		}
	}
	return u, nil
}

// take makes an update the parameter's value.
func (s *state) take(u update) error {
	s.slots = u.slots
	return s.rest(u.value)
}

// rest makes v, laid as the parameter rests, its value; gradients and hooks stay.
func (s *state) rest(v *op.Tensor) error {
	old := s.param.Value
	v = s.at.parameter(v)
	if v.Err() != nil {
		return v.Err()
	}
	s.param.Value = v.Detach().Track().Follow(old)
	if f := s.at.gradients(); f != nil {
		s.param.Value.PlaceGrad(f)
	}
	return nil
}
