package accelerator

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/op"
)

// Split master weights: an f32 weight is stored as its value rounded to bf16, which products read, and
// the remaining 16 bits, which only the update reads. So a step need not round weights, and no bits
// are stored twice. It applies to f32 weights and products in bf16, since bf16 is the upper half of
// f32.

// onSplit rewrites a program whose first parameters are weights to take those in which as halves: the lower
// half takes the weight's position, and the upper halves follow the first owned parameters. If updated is not
// negative, results from there on are new weights; they are split the same way, with the upper halves after
// all other results.
func onSplit(p *ir.Func, which []int, owned, updated int) (*ir.Func, error) {
	b := ir.NewBuilder(p.Name())
	params, upper := p.Params()[:len(p.Params())-len(p.Captures())], map[int]*op.Tensor{}
	var args []*op.Tensor
	for k, v := range params[:owned] {
		name, t := v.Name(), v.Type()
		if slices.Contains(which, k) {
			name, t.DType = name+".lower", array.I16
		}
		args = append(args, b.Param(name, t))
	}
	for _, i := range which {
		upper[i] = b.Param(params[i].Name()+".upper", ir.Type{DType: array.BF16, Shape: params[i].Shape()})
		args[i] = op.JoinF32(upper[i], args[i])
	}
	for _, v := range params[owned:] {
		args = append(args, b.Param(v.Name(), v.Type()))
	}
	args = append(args, p.Captures()...)
	results := p.Replay(b, args, func(n *ir.Node, in []*op.Tensor) []*op.Tensor {
		if i, ok := roundedBy(n); ok && upper[i] != nil {
			return []*op.Tensor{upper[i]}
		}
		return b.Apply(n.Op(), in)
	})
	if updated >= 0 {
		for _, i := range which {
			upper, lower := op.SplitF32(results[updated+i])
			results[updated+i] = lower
			results = append(results, upper)
		}
	}
	return b.Build(results...)
}

// roundedBy returns the parameter that a node casts to bf16, if it does.
func roundedBy(n *ir.Node) (param int, ok bool) {
	if to, casts := op.CastsTo(n.Op()); !casts || to != array.BF16 {
		return 0, false
	}
	v := n.In()[0]
	return v.ID(), v.Node() == nil && v.DType() == array.F32
}

// roundedWeights returns the weights that a step casts to bf16.
func roundedWeights(p *ir.Func, weights int) []int {
	var list []int
	for _, n := range p.Nodes() {
		if i, ok := roundedBy(n); ok && i < weights && !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	slices.Sort(list)
	return list
}

// splitWeights splits weights that are whole: at the start, and after a checkpoint was loaded.
func (r *Executor) splitWeights() error {
	for k, i := range r.split {
		w := r.state[0][i]
		if w.Type().DType == array.I16 {
			continue
		}
		run, err := r.once("split_f32", []backend.Buffer{w}, func(in []*op.Tensor) []*op.Tensor {
			upper, lower := op.SplitF32(in[0])
			return []*op.Tensor{upper, lower}
		})
		if err != nil {
			return err
		}
		parts, err := run()
		if err != nil {
			return err
		}
		if at := r.owned + k; at < len(r.state[0]) {
			r.state[0][at].Free()
			r.state[0][at] = parts[0]
		} else {
			r.state[0] = append(r.state[0], parts[0])
		}
		r.state[0][i] = parts[1]
		w.Free()
	}
	return nil
}

// fetch reads a tensor of the state from one device, and joins its halves if it is split.
func (r *Executor) fetch(i int) (array.Array, error) {
	a, err := r.state[0][i].Read()
	k := slices.Index(r.split, i)
	if err != nil || k < 0 || a.DType() != array.I16 {
		return a, err
	}
	upper, err := r.state[0][r.owned+k].Read()
	if err != nil {
		return a, err
	}
	whole := array.New(array.F32, a.Shape()...)
	kernel.HalvesToF32s(array.Data[float32](whole), array.Raw[uint16](upper), array.Data[int16](a))
	return whole, nil
}
