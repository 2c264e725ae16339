package executor

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TraceForward is the program of a function of the parameters and a batch.
func (c Config) TraceForward(name string, batch []ir.Type, f func([]*op.Tensor) []*op.Tensor) (*ir.Func, error) {
	var params []ir.Type
	for _, p := range c.Params {
		params = append(params, p.Type)
	}
	return c.TraceWith(name, params, batch, f)
}

// TraceWith is TraceForward with parameters of other types.
func (c Config) TraceWith(name string, types, batch []ir.Type, f func([]*op.Tensor) []*op.Tensor) (*ir.Func, error) {
	b := ir.NewBuilder(name)
	var params []*op.Tensor
	for i, p := range c.Params {
		params = append(params, b.Param(p.Name, types[i]))
	}
	in := BatchParams(b, batch)
	defer nn.Bind(c.Params, params)()
	p, err := b.Build(f(in)...)
	for _, rewrite := range c.forwardPasses() {
		if err == nil {
			p, err = rewrite(p)
		}
	}
	return p, err
}

// MeanParts is a loss as a sum and what it is divided by, so that the mean over a batch does not depend on how it is cut.
func MeanParts(loss *op.Tensor, params []*op.Tensor, rows int) (sum, count *op.Tensor) {
	sum, count, ok := op.Quotient(loss)
	if !ok || len(sum.Shape())+len(count.Shape()) > 0 || dependsOn(count, params) {
		count = op.Const(loss, float64(rows))
		sum = op.Mul(loss, count)
	}
	return sum, count
}
