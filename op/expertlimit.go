package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// LimitChoices enforces an expert capacity: it returns choice [..., perToken] with -1 for those beyond the
// capacity of their expert. The first rows that chose an expert, in order, keep it.
func LimitChoices(choice *Tensor, experts, capacity int) *Tensor {
	if choice.Err() != nil {
		return choice
	}
	start := Full(choice.Scope(), array.I64, array.Shape{max(0, experts)}, 0)
	return apply1(expertLimit{Capacity: capacity}, choice, start)
}

// expertLimit takes choices and the number of earlier choices of each expert.
type expertLimit struct{ Capacity int }

func (expertLimit) Name() string                    { return "expert_limit" }
func (expertLimit) NoGradient() string              { return "its operands are integers" }
func (expertLimit) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil, nil} }
func (expertLimit) InPlace() []int                  { return []int{0} }

func (o expertLimit) Infer(in []Type) ([]Type, error) {
	switch {
	case len(in) != 2 || len(in[0].Shape) == 0 || len(in[1].Shape) != 1 || in[1].DType != array.I64:
		return nil, fmt.Errorf("want choices and an i64 for each expert: got %v", in)
	case o.Capacity < 0:
		return nil, fmt.Errorf("capacity %d: want 0 or more", o.Capacity)
	}
	return in[:1], wantIndices(in[0])
}

func (o expertLimit) Decompose(in []*Tensor) []*Tensor {
	flat := Reshape(in[0], in[0].Shape().Len())
	hot := Cast(OneHot(flat, in[1].Dim(0)), array.F64)
	// the number of choices of each expert before each choice
	before := Add(Sub(CumSum(hot, 0), hot), Cast(in[1], array.F64))
	mine := Sum(Mul(before, hot), 1)
	keep := Reshape(Less(mine, Const(mine, float64(o.Capacity))), in[0].Shape()...)
	return []*Tensor{Where(keep, in[0], Const(in[0], -1))}
}

func (expertLimit) Rule(in []Type) mesh.Rule {
	word := ""
	for d := range in[0].Shape {
		word += factors(d, 1) + "*"
	}
	return mesh.Rule(word + ",E*->" + word)
}

// CooperativeRule lets devices split the first dim: each counts on from the devices before it.
func (o expertLimit) CooperativeRule(in []Type) CooperativeRule {
	if len(in[0].Shape) < 2 {
		return CooperativeRule{}
	}
	rule := []byte(o.Rule(in))
	rule[1] = '+'
	return CooperativeRule{Rule: mesh.Rule(rule)}
}

func (o expertLimit) Cooperate(at *Place, in []*Tensor) []*Tensor {
	j := at.joint(0, 0)
	n := at.LocalIn[0].Shape.Len()
	_, own := MoESort(Reshape(in[0], n), at.In[1].Shape[0])
	all := AllGather(Unsqueeze(own, 0), j.mesh, j.axes, 0, nil)
	before := Sum(Cast(Narrow(all, 0, 0, at.along(j.axes)), array.F64), 0)
	return []*Tensor{apply1(o, in[0], Add(in[1], Cast(before, array.I64)))}
}

func (expertLimit) Work(in, out []Type) Work { return Work{Bytes: moved(in, out)} }

func (o expertLimit) Eval(_ *Env, in, out []array.Array) {
	had := append([]int64(nil), array.Data[int64](in[1])...)
	limit := func(e int) bool {
		if e < 0 {
			return true
		}
		had[e]++
		return had[e] <= int64(o.Capacity)
	}
	choices := readChoices(o, in[0], len(had))
	if in[0].DType() == array.I64 {
		limitChoices(array.Data[int64](out[0]), choices, limit)
		return
	}
	limitChoices(array.Data[int32](out[0]), choices, limit)
}

func limitChoices[T int32 | int64](dst []T, choices []int, keep func(e int) bool) {
	for i, e := range choices {
		if dst[i] = T(e); !keep(e) {
			dst[i] = -1
		}
	}
}

func (o expertLimit) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (expertLimit) Samples() []Sample {
	start := Arg{Type: Type{DType: array.I64, Shape: array.Shape{4}}, High: 2}
	return []Sample{
		{Op: expertLimit{Capacity: 3}, In: []Arg{i32Below(4, 7, 2), start}},
		{Op: expertLimit{Capacity: 5}, In: []Arg{i32Below(4, 3, 5, 2), start}},
	}
}
