package executor

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// TraceStep returns the program of a whole training step on batches of the given types. Its parameters are
// the model's parameters, the optimizer's slots, the learning rate, the step number and the batch; its
// results are the loss, the gradient norm, and the next parameters and slots. The model needs shapes, not
// values.
func (c Config) TraceStep(batch []ir.Type) (*ir.Func, error) {
	b := ir.NewBuilder("train_step")
	return b.Build(c.Step(c.StepParams(b, batch))...)
}

// StepParams returns the parameters of a training step's program.
func (c Config) StepParams(b *ir.Builder, batch []ir.Type) []*op.Tensor {
	in := append(c.WeightParams(b), c.SlotParams(b)...)
	in = append(in, b.Param("lr", c.ScalarType()), b.Param("count", c.ScalarType()))
	return append(in, BatchParams(b, batch)...)
}

// WeightParams adds the program parameters for the model's parameters.
func (c Config) WeightParams(b *ir.Builder) (list []*op.Tensor) {
	for _, p := range c.Params {
		list = append(list, b.Param(p.Name, p.Type))
	}
	return list
}

// SlotParams adds the program parameters for the optimizer's slots.
func (c Config) SlotParams(b *ir.Builder) (list []*op.Tensor) {
	for i, p := range c.Params {
		for k, t := range c.SlotTypes(i) {
			list = append(list, b.Param(SlotName(p.Name, k), t))
		}
	}
	return list
}

// SlotTypes returns the types of the optimizer's slots of parameter i; they are as small as possible for
// parameters that no optimizer updates.
func (c Config) SlotTypes(i int) []ir.Type {
	if p := c.Params[i]; p.Fixed || p.Buffer {
		return slices.Repeat([]ir.Type{{DType: array.F32, Shape: array.Shape{1}}}, c.Optimizer.Slots())
	}
	return optim.SlotTypes(c.Optimizer, c.Params[i].Name, c.Params[i].Type)
}

// BatchParams adds the program parameters for a batch.
func BatchParams(b *ir.Builder, batch []ir.Type) (list []*op.Tensor) {
	for i, t := range batch {
		list = append(list, b.Param(fmt.Sprintf("batch%d", i), t))
	}
	return list
}

// SlotName returns the name of an optimizer slot of a parameter.
func SlotName(param string, slot int) string { return fmt.Sprintf("%s.slot%d", param, slot) }

// ScalarType returns the type in which the optimizer computes: f64 for f64 parameters, else f32.
func (c Config) ScalarType() ir.Type {
	if c.Params[0].Type.DType == array.F64 {
		return ir.Type{DType: array.F64}
	}
	return ir.Type{DType: array.F32}
}

// Step returns a training step as a function of eager or traced tensors; see TraceStep for its operands and
// results.
func (c Config) Step(in []*op.Tensor) []*op.Tensor {
	params, rest, batch := c.StepParts(in)
	loss := CheckedLoss(c.LossOf(params, batch, StepOf(rest)), params)
	grads := op.GradOnce([]*op.Tensor{loss}, nil, params)
	if c.UpdateBarrier {
		grads = barrier(grads)
	}
	return c.Update(loss, params, grads, rest, nil)
}

// StepParts splits the operands of a step into the parameters, the slots with learning rate and step number,
// and the batch.
func (c Config) StepParts(in []*op.Tensor) (params, rest, batch []*op.Tensor) {
	n := len(c.Params)
	last := n + n*c.Optimizer.Slots() + 2
	return in[:n], in[n:last], in[last:]
}

// Update returns the results of a step. rest is as in StepParts; scale, if not nil, is the factor that turns
// grads into gradients of the loss.
func (c Config) Update(loss *op.Tensor, params, grads, rest []*op.Tensor, scale *op.Tensor) []*op.Tensor {
	slots := c.Optimizer.Slots()
	state, numbers := rest[:len(rest)-2], rest[len(rest)-2:]
	norm := op.Const(loss, 0)
	if !c.SkipNorm || c.ClipNorm > 0 {
		norm = optim.GlobalNorm(c.learned(grads))
		if scale != nil {
			norm = op.Mul(norm, op.Cast(scale, norm.DType()))
		}
	}
	s := optim.Step{LR: numbers[0], Count: numbers[1], Scale: op.Const(norm, 1)}
	if c.ClipNorm > 0 {
		s.Scale = optim.ClipScale(norm, c.ClipNorm)
	}
	if scale != nil {
		s.Scale = op.Mul(s.Scale, op.Cast(scale, norm.DType()))
	}
	next, nextState := []*op.Tensor{loss, norm}, []*op.Tensor(nil)
	for i, p := range params {
		q, kept := c.Updated(i, p.Detach(), grads[i], state[i*slots:(i+1)*slots], s)
		next, nextState = append(next, q), append(nextState, kept...)
	}
	return append(next, nextState...)
}

// learned returns the gradients without those of buffers, which are increments, and of frozen parameters,
// which have none.
func (c Config) learned(grads []*op.Tensor) (list []*op.Tensor) {
	for i, g := range grads {
		if !c.Params[i].Buffer && !c.Params[i].Fixed {
			list = append(list, g)
		}
	}
	return list
}

// Updated returns parameter i and its slots after a step; they are unchanged if it is not trained.
func (c Config) Updated(i int, p, grad *op.Tensor, slots []*op.Tensor, s optim.Step) (*op.Tensor,
	[]*op.Tensor) {
	if c.Params[i].Fixed {
		return p, slots
	}
	if c.Params[i].Buffer {
		return op.Add(p, op.Cast(grad, p.DType())), slots
	}
	return optim.For(c.Optimizer, c.Params[i].Name).Update(p, grad, slots, s)
}

// stopped returns params with gradients stopped for frozen ones, so that these do not count in the gradient
// norm.
func (c Config) stopped(params []*op.Tensor) []*op.Tensor {
	out := slices.Clone(params)
	for i, p := range c.Params {
		if p.Fixed {
			out[i] = op.StopGradient(params[i])
		}
	}
	return out
}

// StepOf returns a function that returns the step number, given rest as in StepParts.
func StepOf(rest []*op.Tensor) func() *op.Tensor {
	return sync.OnceValue(func() *op.Tensor { return op.Cast(rest[len(rest)-1], array.I64) })
}

// LossOf returns the loss as a function of parameters and a batch in training mode, after the passes that the
// config selects; step returns the step number if the model needs it.
func (c Config) LossOf(params, batch []*op.Tensor, step func() *op.Tensor) *op.Tensor {
	if passes := c.forwardPasses(); len(passes) > 0 {
		return c.rewrittenLoss(passes, params, batch, step)
	}
	return c.plainLoss(params, batch, step)
}

func (c Config) plainLoss(params, batch []*op.Tensor, step func() *op.Tensor) *op.Tensor {
	defer nn.TrainBound(c.Params, c.stopped(params), step)()
	return c.Loss(batch)
}

// CheckedLoss returns loss, or an invalid tensor if it is not a usable loss.
func CheckedLoss(loss *op.Tensor, params []*op.Tensor) *op.Tensor {
	var err error
	switch {
	case loss == nil:
		err = errors.New("loss: got nil, want a float scalar")
	case loss.Err() != nil:
		return loss
	case len(loss.Shape()) > 0 || !loss.DType().IsFloat():
		err = fmt.Errorf("loss: got %v, want a float scalar: reduce it with op.Mean or op.Sum", loss.Type())
	case !dependsOn(loss, params):
		err = errors.New("loss: it depends on no parameter: compute it inside Loss from the layers' Forward")
	default:
		return loss
	}
	return ir.Invalid(params[0].Scope(), &ir.Error{Op: "trainer", Err: err})
}

// dependsOn reports whether y was computed from any of xs.
func dependsOn(y *op.Tensor, xs []*op.Tensor) bool {
	seen, todo := map[*op.Tensor]bool{}, []*op.Tensor{y}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if slices.Contains(xs, v) {
			return true
		}
		if v.Node() != nil && !seen[v] {
			seen[v] = true
			todo = append(todo, op.Sources(v)...)
		}
	}
	return false
}

// barrier makes every gradient depend on all of them, so that an update overwrites a weight only after
// everything has read it. Casts to a wider dtype are moved behind it: the update then reads fewer bytes.
func barrier(grads []*op.Tensor) []*op.Tensor {
	short := make([]*op.Tensor, len(grads))
	for i, g := range grads {
		short[i] = g
		n := g.Node()
		if n == nil {
			continue
		}
		if _, casts := op.CastsTo(n.Op()); casts && n.In()[0].DType().IsHalf() {
			short[i] = n.In()[0]
		}
	}
	all := make([]*op.Tensor, len(grads))
	for i, g := range op.Await(short...) {
		all[i] = op.Cast(g, grads[i].DType())
	}
	return all
}

// Metrics is the number of a step's results before the state: the loss and the gradient norm.
const Metrics = 2
