package galley

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

// withDefaults fills in what may be left out of a config and checks the rest.
func (c TrainerConfig) withDefaults() (TrainerConfig, error) {
	if c.Loss == nil || len(c.Params) == 0 {
		return c, fmt.Errorf("trainer: want parameters and a loss")
	}
	if c.Optimizer == nil {
		c.Optimizer = optim.AdamW{}
	}
	if c.Schedule == nil {
		c.Schedule = optim.Constant{LR: 1e-3}
	}
	if c.Parallel != nil {
		c.Annotations = slices.Concat(c.Annotations, c.Parallel.Annotations)
		if c.Strategy == nil {
			c.Strategy = c.Parallel.Strategy
		}
	}
	if err := checkAnnotations(c.Annotations, c.Params); err != nil {
		return c, fmt.Errorf("trainer: %w", err)
	}
	return c, nil
}

// TraceStep is the program of a whole training step on batches of these types. Its parameters are the model's, the
// optimizer's slots, the learning rate, the step's number and the batch; its results the loss, the gradients' norm, the
// next parameters and slots. The model needs no values: shapes are enough.
func TraceStep(c TrainerConfig, batch ...Type) (p *Program, err error) {
	defer recoverBug("trace of the training step", &err)
	if c, err = c.withDefaults(); err != nil {
		return nil, err
	}
	b := ir.NewBuilder("train_step")
	return b.Build(c.step(c.stepParams(b, batch))...)
}

// stepParams is the parameters of a training step's program.
func (c TrainerConfig) stepParams(b *ir.Builder, batch []Type) []*Tensor {
	in := append(c.weightParams(b), c.slotParams(b)...)
	in = append(in, b.Param("lr", c.scalarType()), b.Param("count", c.scalarType()))
	return append(in, batchParams(b, batch)...)
}

func (c TrainerConfig) weightParams(b *ir.Builder) (list []*Tensor) {
	for _, p := range c.Params {
		list = append(list, b.Param(p.Name, p.Type))
	}
	return list
}

func (c TrainerConfig) slotParams(b *ir.Builder) (list []*Tensor) {
	for _, p := range c.Params {
		for i := range c.Optimizer.Slots() {
			list = append(list, b.Param(slotName(p.Name, i), p.Type))
		}
	}
	return list
}

func batchParams(b *ir.Builder, batch []Type) (list []*Tensor) {
	for i, t := range batch {
		list = append(list, b.Param(fmt.Sprintf("batch%d", i), t))
	}
	return list
}

// slotName is what the optimizer's memory of a parameter is called.
func slotName(param string, slot int) string { return fmt.Sprintf("%s.slot%d", param, slot) }

// scalarType is the type in which the optimizer computes: f64 for f64 parameters, else f32.
func (c TrainerConfig) scalarType() Type {
	if c.Params[0].Type.DType == array.F64 {
		return Type{DType: array.F64}
	}
	return Type{DType: array.F32}
}

// step is a training step as a function of tensors, eager or traced; see TraceStep for what goes in and out.
func (c TrainerConfig) step(in []*Tensor) []*Tensor {
	params, rest, batch := c.stepParts(in)
	loss := checkedLoss(c.lossOf(params, batch, stepOf(rest)), params)
	grads := op.GradOnce([]*Tensor{loss}, nil, params)
	if c.settle {
		grads = settled(grads)
	}
	return c.update(loss, params, grads, rest, nil)
}

// stepParts is what goes into a step: the parameters, the slots with the learning rate and the step's number, the batch.
func (c TrainerConfig) stepParts(in []*Tensor) (params, rest, batch []*Tensor) {
	n := len(c.Params)
	last := n + n*c.Optimizer.Slots() + 2
	return in[:n], in[n:last], in[last:]
}

// update is the end of a step, and what a step returns. rest is as stepParts says; scale, where it is not nil, makes of grads those
// of the loss.
func (c TrainerConfig) update(loss *Tensor, params, grads, rest []*Tensor, scale *Tensor) []*Tensor {
	slots := c.Optimizer.Slots()
	state, numbers := rest[:len(rest)-2], rest[len(rest)-2:]
	norm := op.Const(loss, 0)
	if !c.SkipNorm || c.ClipNorm > 0 {
		norm = optim.GlobalNorm(grads)
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
	next, nextState := []*Tensor{loss, norm}, []*Tensor(nil)
	for i, p := range params {
		q, kept := c.updated(i, p.Detach(), grads[i], state[i*slots:(i+1)*slots], s)
		next, nextState = append(next, q), append(nextState, kept...)
	}
	return append(next, nextState...)
}

// updated is parameter i after a step, and its slots: as they are where training leaves it alone.
func (c TrainerConfig) updated(i int, p, grad *Tensor, slots []*Tensor, s optim.Step) (*Tensor, []*Tensor) {
	if c.Params[i].Fixed {
		return p, slots
	}
	return c.Optimizer.Update(p, grad, slots, s)
}

// stepOf is the number of a step, where it is asked for, by what stepParts says.
func stepOf(rest []*Tensor) func() *Tensor {
	return sync.OnceValue(func() *Tensor { return op.Cast(rest[len(rest)-1], array.I64) })
}

// lossOf is the loss while the model trains: step is the number of the step, where it is asked for.
func (c TrainerConfig) lossOf(params, batch []*Tensor, step func() *Tensor) *Tensor {
	if passes := c.forwardPasses(); len(passes) > 0 {
		return c.rewrittenLoss(passes, params, batch, step)
	}
	return c.plainLoss(params, batch, step)
}

func (c TrainerConfig) plainLoss(params, batch []*Tensor, step func() *Tensor) *Tensor {
	defer nn.Train(c.Params, step)()
	defer nn.Bind(c.Params, params)()
	return c.Loss(batch)
}

// checkedLoss is loss, or an invalid tensor where it cannot be what was meant.
func checkedLoss(loss *Tensor, params []*Tensor) *Tensor {
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
func dependsOn(y *Tensor, xs []*Tensor) bool {
	seen, todo := map[*Tensor]bool{}, []*Tensor{y}
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
