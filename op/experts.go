package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Experts returns a mixture of gated MLPs. For each row of x [..., width], choice [..., perToken] names
// experts, -1 for none, and weight [..., perToken] holds their weights:
//
//	y = Σ weight · down[choice] · (silu(gate[choice]·x) · (up[choice]·x))
//
// gateUp [experts, 2, inner, width] holds the matrices gate and up, down is [experts, out, inner]. The order
// in which a row's experts are summed does not depend on where they are computed, and no token is dropped.
// Activations are recomputed for gradients, not kept.
func Experts(x, choice, weight, gateUp, down *Tensor) *Tensor {
	return apply1(experts{}, x, choice, weight, gateUp, down)
}

// experts may have a shard of the experts: those from Offset on, of Total; 0 means all of them. Other experts
// give zeros, so that the results of all shards can be summed.
type experts struct{ Offset, Total int }

func (experts) Name() string    { return "experts" }
func (experts) Linear() [][]int { return [][]int{{2}, {4}} }

func (o experts) part(n int) rowPart { return rowPart{n, o.Offset, o.Total} }

func (o experts) Infer(in []Type) ([]Type, error) {
	if len(in) != 5 {
		return nil, fmt.Errorf("want 5 operands: got %d", len(in))
	}
	if err := fitExperts(in); err != nil {
		return nil, err
	}
	if !o.part(in[3].Shape[0]).fits() {
		return nil, fmt.Errorf("%v has no experts from %d on of %d", in[3], o.Offset, o.Total)
	}
	lead := in[0].Shape[:len(in[0].Shape)-1]
	return []Type{{DType: in[0].DType, Shape: append(lead.Clone(), in[4].Shape[1])}}, nil
}

// fitExperts checks x, choice, weight and the matrices against each other.
func fitExperts(in []Type) error {
	x, choice, weight, gateUp, down := in[0].Shape, in[1].Shape, in[2].Shape, in[3].Shape, in[4].Shape
	if err := wantIndices(in[1]); err != nil {
		return err
	}
	if err := wantFloats([]Type{in[0], in[2], in[3], in[4]}, 4); err != nil {
		return err
	}
	switch {
	case len(x) == 0 || !choice.Equal(weight) || len(choice) != len(x) || !choice[:len(x)-1].Equal(x[:len(x)-1]):
		return fmt.Errorf("choices %v and weights %v do not fit the rows of %v", in[1], in[2], in[0])
	case len(gateUp) != 4 || gateUp[1] != 2 || gateUp[3] != x[len(x)-1]:
		return fmt.Errorf("gates %v: want [experts 2 inner %d]", in[3], x[len(x)-1])
	case len(down) != 3 || down[0] != gateUp[0] || down[2] != gateUp[2]:
		return fmt.Errorf("matrices %v do not fit gates %v", in[4], in[3])
	}
	return nil
}

func (o experts) Decompose(in []*Tensor) []*Tensor {
	x, choice, weight, gateUp, down := wide(in[0]), in[1], wide(in[2]), wide(in[3]), wide(in[4])
	lead := x.Shape()[:len(x.Shape())-1]
	n, k := lead.Len(), choice.Dim(-1)
	x = Reshape(x, n, x.Dim(-1))
	h := Einsum("nm,epim->pnei", x, gateUp)
	parts := Unbind(h, 0)
	if len(parts) != 2 {
		return []*Tensor{h}
	}
	y := Einsum("nei,eoi->neo", SwiGLU(parts[0], parts[1]), down)
	hot := Cast(apply1(oneHot{NumClasses: down.Dim(0), Offset: o.Offset}, Reshape(choice, n, k)), x.DType())
	counts := Einsum("nke,nk->ne", hot, Reshape(weight, n, k))
	y = Einsum("neo,ne->no", y, counts)
	return []*Tensor{Cast(Reshape(y, append(lead.Clone(), y.Dim(-1))...), in[0].DType())}
}

func (o experts) VJP(in, _, dout []*Tensor) []*Tensor {
	g := ir.Apply(expertsGrad(o), append(in[:5:5], dout[0])...)
	return []*Tensor{g[0], nil, g[1], g[2], g[3]}
}

// expertWords returns the factors of rows, choices, gateUp, down and results in a rule; expert is the factor
// of the experts.
func expertWords(rank int, expert string) (x, choice, gateUp, down, y string) {
	lead := factors(0, rank-1)
	return lead + "M*", lead + "K", expert + "P*IM*", expert + "OI", lead + "O"
}

// Rule sums over parts of the experts and of the inner dim. The width must not be split, because an
// activation follows.
func (o experts) Rule(in []Type) mesh.Rule { return o.ruleOf(in, "E") }

func (experts) ruleOf(in []Type, expert string) mesh.Rule {
	x, choice, gateUp, down, y := expertWords(len(in[0].Shape), expert)
	return mesh.Rule(x + "," + choice + "," + choice + "," + gateUp + "," + down + "->" + y)
}

func (o experts) Localize(at *Place) (Op, error) {
	start, total := at.localRows(3, 0, o.Total)
	return experts{Offset: o.Offset + start, Total: total}, nil
}

// Work counts every choice once and assumes balanced experts.
func (o experts) Work(in, out []Type) Work {
	return Work{Flops: 6 * o.pairs(in) * expertSize(in), Bytes: moved(in, out)}
}

// pairs returns the expected number of pairs of row and expert on the shard.
func (o experts) pairs(in []Type) float64 {
	share := 1.0
	if o.Total > 0 {
		share = float64(in[3].Shape[0]) / float64(o.Total)
	}
	return float64(in[1].Shape.Len()) * share
}

// expertSize returns the number of elements of one of an expert's three matrices.
func expertSize(in []Type) float64 { return float64(in[3].Shape[2] * in[3].Shape[3]) }

func (o experts) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runExperts[float32](env, o, in, out[0]) },
		func() { runExperts[float64](env, o, in, out[0]) })
}

func runExperts[T floats](env *Env, o experts, in []array.Array, out array.Array) {
	b, r := newExpertBank[T](env, in), newRouting(o, in[1], in[3].Shape()[0], o.Offset, o.Total)
	x, weight, y := array.Data[T](in[0]), array.Data[T](in[2]), array.Data[T](out)
	clear(y)
	b.forward(env, r.lists, expertRows[T]{
		read:  func(pair int, dst []T) { copy(dst, rowOf(x, pair/r.perRow, b.width)) },
		write: func(pair int, src []T) { addScaled(rowOf(y, pair/r.perRow, b.out), weight[pair], src) },
	})
}

func (o experts) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (experts) Samples() []Sample {
	return []Sample{
		{In: expertsSample(4, 5, 3)},
		{In: expertsSample(5, 2, 3, 6)},
		{Op: experts{Offset: 2, Total: 7}, In: expertsSample(3, 8)},
	}
}

// expertsSample returns operands for n experts and the given rows, with choices among all experts.
func expertsSample(n int, rows ...int) []Arg {
	with := func(last int) []int { return append(append([]int{}, rows...), last) }
	choice := i32Below(n, with(2)...)
	choice.Low = -1
	return []Arg{f32(with(6)...), choice, f32(with(2)...), f32(n, 2, 7, 6), f32(n, 5, 7)}
}
