package sharding

import (
	"maps"
	"slices"
	"sync"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// spmdOps is every recorded op by name.
var spmdOps = sync.OnceValue(func() map[string]spmdOp {
	all := map[string]spmdOp{}
	for family, ops := range map[string]map[string]spmdOp{
		"elementwise":       elementwiseOps(),
		"reduction":         reductionOps(),
		"contraction":       contractionOps(),
		"shape":             shapeOps(),
		"index":             indexOps(),
		"norm/softmax/loss": lossOps(),
		"attention":         attentionOps(),
		"MoE":               moeOps(),
		"convolution":       convolutionOps(),
		"scan/order":        orderOps(),
		"fallback":          fallbackOps(),
	} {
		for name, o := range ops {
			o.family = family
			all[name] = o
		}
	}
	return all
})

// opTable is ops by name, each as one function.
type opTable map[string]func(b *spmdBuild) []*op.Tensor

func (t opTable) ops() map[string]spmdOp {
	all := map[string]spmdOp{}
	for name, build := range t {
		all[name] = spmdOp{build: build}
	}
	return all
}

// join returns several tables as one.
func join(tables ...map[string]spmdOp) map[string]spmdOp {
	all := map[string]spmdOp{}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}

// missing returns ops that do not exist here, all for one reason.
func missing(reason string, names ...string) map[string]spmdOp {
	all := map[string]spmdOp{}
	for _, name := range names {
		all[name] = spmdOp{missing: reason}
	}
	return all
}

// only returns a list of one result.
func only(t *op.Tensor) []*op.Tensor { return []*op.Tensor{t} }

// pullback returns the gradients of y's operands by the VJP of its op: out is used as the value of y, dy is
// the gradient of y.
func pullback(y, out, dy *op.Tensor) []*op.Tensor {
	n := y.Node()
	if y.Err() != nil || n == nil {
		return only(y)
	}
	outs, grads := slices.Clone(n.Out()), make([]*op.Tensor, len(n.Out()))
	grads[y.Index()] = dy
	if out != nil {
		outs[y.Index()] = out
	}
	return n.Op().(op.Op).VJP(n.In(), outs, grads)
}

// gradients returns those of xs through the program that made y.
func gradients(y, dy *op.Tensor, xs ...*op.Tensor) []*op.Tensor {
	if dy.Err() != nil || y.Err() != nil || !y.Shape().Equal(dy.Shape()) {
		return only(mismatched(y, dy))
	}
	return op.Grad(only(y), only(dy), xs)
}

// mismatched returns the error for a gradient of the wrong shape.
func mismatched(y, dy *op.Tensor) *op.Tensor {
	for _, t := range []*op.Tensor{y, dy} {
		if t.Err() != nil {
			return t
		}
	}
	return ir.Invalid(y.Scope(), shapeError{y.Shape(), dy.Shape()})
}

type shapeError struct{ want, got []int }

func (e shapeError) Error() string { return "the gradient does not have the result's shape" }
