package executor

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TraceForward returns the program of a function of the parameters and a batch.
func (c Config) TraceForward(name string, batch []ir.Type, f func([]*op.Tensor) []*op.Tensor) (*ir.Func,
	error) {
	var params []ir.Type
	for _, p := range c.Params {
		params = append(params, p.Type)
	}
	return c.TraceWith(name, params, batch, f)
}

// TraceWith is like TraceForward with parameters of other types.
func (c Config) TraceWith(name string, types, batch []ir.Type, f func([]*op.Tensor) []*op.Tensor) (*ir.Func,
	error) {
	b := ir.NewBuilder(name)
	var params []*op.Tensor
	for i, p := range c.Params {
		params = append(params, b.Param(p.Name, types[i]))
	}
	in := BatchParams(b, batch)
	defer nn.Bind(c.Params, c.stopped(params))() // as in training, so that stages keep the same weights
	p, err := b.Build(f(in)...)
	for _, rewrite := range c.forwardPasses() {
		if err == nil {
			p, err = rewrite(p)
		}
	}
	return p, err
}

// LossForms returns a loss in two forms, each as a numerator and a divisor. The first is the quotient that
// the loss is, whose parts can both be summed over micro-batches; the second is the loss times the number of
// rows, and that number. The last form is always valid.
func LossForms(loss *op.Tensor, params []*op.Tensor, rows int) []*op.Tensor {
	count := op.Const(loss, float64(rows))
	forms := []*op.Tensor{op.Mul(loss, count), count}
	sum, count, ok := op.Quotient(loss)
	if !ok || len(sum.Shape())+len(count.Shape()) > 0 || dependsOn(count, params) {
		return forms
	}
	return append([]*op.Tensor{sum, count}, forms...)
}

// FormIndex returns the result indices of each form of a loss.
func FormIndex(forms []*op.Tensor) (list [][]int) {
	for i := 0; i < len(forms); i += 2 {
		list = append(list, []int{i, i + 1})
	}
	return list
}
