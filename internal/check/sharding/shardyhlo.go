package sharding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// absent returns why an operation has no counterpart here.
func absent(format string, args ...any) error { return fmt.Errorf(format, args...) }

// translation builds an operation from Galley's ops. Data is the operands that have factors; scalars such as
// starts of slices and neutral elements are excluded.
type translation struct {
	data  []int
	build func(in []*op.Tensor) []*op.Tensor
	// carried is the number of further operands and results that are sharded like the first.
	carried int
}

// hloOne wraps a builder of one result to return a list.
func hloOne(build func(in []*op.Tensor) *op.Tensor) func(in []*op.Tensor) []*op.Tensor {
	return func(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{build(in)} }
}

// translate finds the counterpart of an operation on operands of these types.
func (o shardyOp) translate(in, out []ir.Type) (*translation, error) {
	name := strings.TrimPrefix(o.Op, "stablehlo.")
	if f, ok := hloElementwise()[name]; ok && len(in) == f.operands {
		return &translation{data: firstOperands(f.operands), build: hloOne(f.build)}, nil
	}
	if f, ok := hloStructural()[name]; ok {
		return f(o, in, out)
	}
	if name == "custom_call" {
		if o.Target == "mhlo.topk" && len(in) == 1 {
			k := out[0].Shape[len(out[0].Shape)-1]
			return &translation{data: []int{0}, build: func(x []*op.Tensor) []*op.Tensor {
				values, places := op.TopK(x[0], k, -1)
				return []*op.Tensor{values, places}
			}}, nil
		}
		return nil, absent("custom call %s does not exist", o.Target)
	}
	return nil, absent("op %s does not exist", name)
}

func firstOperands(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

type hloPointwise struct {
	operands int
	build    func(x []*op.Tensor) *op.Tensor
}

// hloElementwise by name, without operands broadcast.
func hloElementwise() map[string]hloPointwise {
	return map[string]hloPointwise{
		"add":                   {2, func(x []*op.Tensor) *op.Tensor { return op.Add(x[0], x[1]) }},
		"subtract":              {2, func(x []*op.Tensor) *op.Tensor { return op.Sub(x[0], x[1]) }},
		"multiply":              {2, func(x []*op.Tensor) *op.Tensor { return op.Mul(x[0], x[1]) }},
		"divide":                {2, func(x []*op.Tensor) *op.Tensor { return op.Div(x[0], x[1]) }},
		"maximum":               {2, func(x []*op.Tensor) *op.Tensor { return op.Maximum(x[0], x[1]) }},
		"minimum":               {2, func(x []*op.Tensor) *op.Tensor { return op.Minimum(x[0], x[1]) }},
		"and":                   {2, func(x []*op.Tensor) *op.Tensor { return op.LogicalAnd(x[0], x[1]) }},
		"or":                    {2, func(x []*op.Tensor) *op.Tensor { return op.LogicalOr(x[0], x[1]) }},
		"compare":               {2, func(x []*op.Tensor) *op.Tensor { return op.Less(x[0], x[1]) }},
		"xor":                   {2, func(x []*op.Tensor) *op.Tensor { return op.LogicalXor(x[0], x[1]) }},
		"not":                   {1, func(x []*op.Tensor) *op.Tensor { return op.LogicalNot(x[0]) }},
		"log_plus_one":          {1, func(x []*op.Tensor) *op.Tensor { return op.Log1p(x[0]) }},
		"exponential_minus_one": {1, func(x []*op.Tensor) *op.Tensor { return op.Expm1(x[0]) }},
		"is_finite":             {1, func(x []*op.Tensor) *op.Tensor { return op.IsFinite(x[0]) }},
		"round_nearest_even":    {1, func(x []*op.Tensor) *op.Tensor { return op.Round(x[0]) }},
		"negate":                {1, func(x []*op.Tensor) *op.Tensor { return op.Neg(x[0]) }},
		"abs":                   {1, func(x []*op.Tensor) *op.Tensor { return op.Abs(x[0]) }},
		"sine":                  {1, func(x []*op.Tensor) *op.Tensor { return op.Sin(x[0]) }},
		"cosine":                {1, func(x []*op.Tensor) *op.Tensor { return op.Cos(x[0]) }},
		"tanh":                  {1, func(x []*op.Tensor) *op.Tensor { return op.Tanh(x[0]) }},
		"exponential":           {1, func(x []*op.Tensor) *op.Tensor { return op.Exp(x[0]) }},
		"log":                   {1, func(x []*op.Tensor) *op.Tensor { return op.Log(x[0]) }},
		"sqrt":                  {1, func(x []*op.Tensor) *op.Tensor { return op.Sqrt(x[0]) }},
		"rsqrt":                 {1, func(x []*op.Tensor) *op.Tensor { return op.Rsqrt(x[0]) }},
		"logistic":              {1, func(x []*op.Tensor) *op.Tensor { return op.Sigmoid(x[0]) }},
		"sign":                  {1, func(x []*op.Tensor) *op.Tensor { return op.Sign(x[0]) }},
		"floor":                 {1, func(x []*op.Tensor) *op.Tensor { return op.Floor(x[0]) }},
		"ceil":                  {1, func(x []*op.Tensor) *op.Tensor { return op.Ceil(x[0]) }},
		"convert": {1, func(x []*op.Tensor) *op.Tensor {
			return op.Cast(x[0],
				otherFloat(x[0].DType()))
		}},
		"select": {3, func(x []*op.Tensor) *op.Tensor { return op.Where(x[0], x[1], x[2]) }},
	}
}

// otherFloat returns another dtype: a cast to the same one would be dropped.
func otherFloat(d array.DType) array.DType {
	if d == array.F32 {
		return array.F64
	}
	return array.F32
}

// hloStructural by name.
func hloStructural() map[string]func(o shardyOp, in, out []ir.Type) (*translation, error) {
	return map[string]func(o shardyOp, in, out []ir.Type) (*translation, error){
		"dot":                  hloDot,
		"dot_general":          hloDotGeneral,
		"transpose":            hloTranspose,
		"reshape":              hloReshape,
		"broadcast_in_dim":     hloBroadcast,
		"reduce":               hloReduce,
		"concatenate":          hloConcat,
		"slice":                hloSlice,
		"pad":                  hloPad,
		"reverse":              hloReverse,
		"clamp":                hloClamp,
		"dynamic_slice":        hloDynamicSlice,
		"dynamic_update_slice": hloDynamicUpdateSlice,
		"sort":                 hloSort,
		"convolution":          hloConvolution,
	}
}

func hloDot(_ shardyOp, in, _ []ir.Type) (*translation, error) {
	x, y := []string{"", "k", "mk"}[len(in[0].Shape)], []string{"", "k", "kn"}[len(in[1].Shape)]
	return hloEinsum(x, y, strings.ReplaceAll(x+y, "k", "")), nil
}

func hloEinsum(x, y, z string) *translation {
	return &translation{data: []int{0, 1},
		build: hloOne(func(in []*op.Tensor) *op.Tensor { return op.Einsum(x+","+y+"->"+z, in...) })}
}

func hloDotGeneral(o shardyOp, in, _ []ir.Type) (*translation, error) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	x, y := make([]byte, len(in[0].Shape)), make([]byte, len(in[1].Shape))
	next := 0
	pair := func(dims [][]int) (word string) {
		if len(dims) != 2 {
			return ""
		}
		for i := range dims[0] {
			x[dims[0][i]], y[dims[1][i]] = letters[next], letters[next]
			word += letters[next : next+1]
			next++
		}
		return word
	}
	out := pair(o.Attrs.Batching)
	pair(o.Attrs.Contracting)
	for _, word := range [][]byte{x, y} {
		for d := range word {
			if word[d] == 0 {
				word[d] = letters[next]
				out += letters[next : next+1]
				next++
			}
		}
	}
	return hloEinsum(string(x), string(y), out), nil
}

func hloUnary(build func(x *op.Tensor) *op.Tensor) *translation {
	return &translation{data: []int{0}, build: hloOne(func(in []*op.Tensor) *op.Tensor { return build(in[0]) })}
}

func hloTranspose(o shardyOp, _, _ []ir.Type) (*translation, error) {
	return hloUnary(func(x *op.Tensor) *op.Tensor { return op.Transpose(x, o.Attrs.Dims...) }), nil
}

func hloReshape(_ shardyOp, _, out []ir.Type) (*translation, error) {
	return hloUnary(func(x *op.Tensor) *op.Tensor { return op.Reshape(x, out[0].Shape...) }), nil
}

// hloBroadcast transposes dims to the result's order, adds dims of size one, and broadcasts.
func hloBroadcast(o shardyOp, in, out []ir.Type) (*translation, error) {
	return hloUnary(func(x *op.Tensor) *op.Tensor {
		order := make([]int, len(o.Attrs.Dims))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return o.Attrs.Dims[a] - o.Attrs.Dims[b] })
		if !slices.IsSorted(o.Attrs.Dims) {
			x = op.Transpose(x, order...)
		}
		shape := slices.Repeat([]int{1}, len(out[0].Shape))
		for i, d := range o.Attrs.Dims {
			shape[d] = in[0].Shape[i]
		}
		if len(shape) != len(in[0].Shape) {
			x = op.Reshape(x, shape...)
		}
		return op.Expand(x, out[0].Shape...)
	}), nil
}

func hloReduce(o shardyOp, in, _ []ir.Type) (*translation, error) {
	if len(in) != 2 {
		return nil, absent("reduce of several operands at once does not exist")
	}
	kind := "add"
	if names := slices.Concat(o.Attrs.Reducers, o.Attrs.RegionOps); len(names) > 0 {
		kind = names[0]
	}
	reduce := map[string]func(*op.Tensor, ...int) *op.Tensor{"add": op.Sum, "maximum": op.AMax,
		"minimum": op.AMin, "multiply": op.Prod, "or": op.AnyOf, "and": op.AllOf}[kind]
	if reduce == nil {
		return nil, absent("reduce by %s does not exist", kind)
	}
	return hloUnary(func(x *op.Tensor) *op.Tensor { return reduce(x, o.Attrs.Dimensions...) }), nil
}

func hloConcat(o shardyOp, in, _ []ir.Type) (*translation, error) {
	return &translation{data: firstOperands(len(in)),
		build: hloOne(func(x []*op.Tensor) *op.Tensor { return op.Concat(x, o.Attrs.Dim) })}, nil
}

func hloReverse(o shardyOp, _, _ []ir.Type) (*translation, error) {
	return hloUnary(func(x *op.Tensor) *op.Tensor { return op.Flip(x, o.Attrs.Dims...) }), nil
}

func hloClamp(_ shardyOp, in, _ []ir.Type) (*translation, error) {
	if len(in[0].Shape)+len(in[2].Shape) > 0 {
		return nil, absent("clamp between tensors does not exist")
	}
	return &translation{data: []int{1}, build: hloOne(func(x []*op.Tensor) *op.Tensor {
		return op.Clamp(x[0], -1,
			1)
	})}, nil
}
