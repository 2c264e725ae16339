package check

import (
	"fmt"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/check/torchop"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/op"
)

// prepare reads a case's operands in a dtype and returns the function of them. It checks the shapes of
// results first, so that a mistake in the file is found before anything of another size is computed.
func (oc *opCase) prepare(d *galley.Device, file *safetensors.File, dtype array.DType) ([]array.Array,
	func([]*op.Tensor) []*op.Tensor, error) {
	build, err := torchop.New(oc.Op, oc.Attrs)
	if err == nil {
		err = oc.valid(build)
	}
	if err != nil {
		return nil, nil, err
	}
	args, err := oc.read(d, file, append(append([]string(nil), oc.Inputs...), oc.auxNames()...), dtype)
	if err != nil {
		return nil, nil, err
	}
	if err := oc.checkShapes(build, args[:len(oc.Inputs)], file); err != nil {
		return nil, nil, err
	}
	n := len(oc.Inputs)
	return args, func(xs []*op.Tensor) []*op.Tensor { return oc.compute(build, xs[:n:n], xs[n:]) }, nil
}

// valid returns an error if the case refers to operands or results that it does not have.
func (oc *opCase) valid(build torchop.Func) error {
	if n := len(oc.Inputs); n < build.Least || n > build.Most {
		return fmt.Errorf("op %s: got %d inputs, want %s", oc.Op, n, build.Operands())
	}
	for _, ct := range oc.Cotangents {
		if ct.Index < 0 || ct.Index >= len(oc.Outputs) {
			return fmt.Errorf("cotangent %s: of output %d, of which there are %d", ct.Name, ct.Index, len(oc.Outputs))
		}
	}
	for _, g := range oc.Grads {
		if g.Index < 0 || g.Index >= len(oc.Inputs) {
			return fmt.Errorf("gradient %s: of input %d, of which there are %d", g.Name, g.Index, len(oc.Inputs))
		}
	}
	if len(oc.Grads) > 0 && len(oc.Cotangents) == 0 {
		return fmt.Errorf("got %d gradients and no cotangent: want one of an output", len(oc.Grads))
	}
	if len(oc.HVP) > 0 && len(oc.HVP) != len(oc.Grads) {
		return fmt.Errorf("got %d Hessian products of %d gradients: want one for each", len(oc.HVP), len(oc.Grads))
	}
	return nil
}

// checkShapes traces the function without computing it, and compares its results' shapes with the recorded
// ones.
func (oc *opCase) checkShapes(build torchop.Func, args []array.Array, file *safetensors.File) error {
	types := make([]op.Type, len(args))
	for i, a := range args {
		types[i] = op.Type{DType: a.DType(), Shape: a.Shape()}
	}
	p, err := galley.Trace("case", types, build.Of)
	if err != nil {
		return err
	}
	if len(p.Results()) != len(oc.Outputs) {
		return fmt.Errorf("got %d results, want %d", len(p.Results()), len(oc.Outputs))
	}
	for i, name := range oc.Outputs {
		_, want, ok := file.Type(name)
		if !ok {
			return fmt.Errorf("output %q: not in ops.safetensors", name)
		}
		if got := p.Results()[i].Shape(); !got.Equal(want) {
			return fmt.Errorf("%s: got shape %v, want %v", name, got, want)
		}
	}
	return nil
}

// auxNames returns the cotangents and the vectors of Hessian products, in this order.
func (oc *opCase) auxNames() []string {
	var names []string
	for _, ct := range oc.Cotangents {
		names = append(names, ct.Name)
	}
	for _, p := range oc.HVP {
		names = append(names, p[0])
	}
	return names
}

// resultNames returns the outputs, the gradients and the Hessian products.
func (oc *opCase) resultNames() []string {
	names := append([]string(nil), oc.Outputs...)
	for _, g := range oc.Grads {
		names = append(names, g.Name)
	}
	for _, p := range oc.HVP {
		names = append(names, p[1])
	}
	return names
}

func (oc *opCase) read(d *galley.Device, file *safetensors.File, names []string,
	dtype array.DType) ([]array.Array, error) {
	out := make([]array.Array, len(names))
	for i, name := range names {
		a, err := file.Read(name)
		if err != nil {
			return nil, err
		}
		if a.DType().IsFloat() {
			if a, err = galley.Read(op.Cast(d.NewSession().Tensor(a), dtype)); err != nil {
				return nil, err
			}
		}
		out[i] = a
	}
	return out, nil
}

// compute returns the case as tensors: outputs, then gradients, then Hessian-vector products.
func (oc *opCase) compute(build torchop.Func, in, aux []*op.Tensor) []*op.Tensor {
	outs := build.Of(in)
	if len(oc.Grads) == 0 {
		return outs
	}
	var ys, cts, xs []*op.Tensor
	for i, ct := range oc.Cotangents {
		y := outs[ct.Index]
		ys, cts = append(ys, y), append(cts, op.Cast(aux[i], y.DType())) // a loss of 16-bit logits is f32
	}
	for _, g := range oc.Grads {
		xs = append(xs, in[g.Index])
	}
	grads := op.Grad(ys, cts, xs)
	results := append(outs, grads...)
	if len(oc.HVP) > 0 {
		results = append(results, op.Grad(grads, aux[len(oc.Cotangents):], xs)...)
	}
	return results
}
