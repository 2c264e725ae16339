package interp

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

var unaryFloat = map[string]func(x float64) float64{
	"abs": math.Abs, "ceil": math.Ceil, "cosine": math.Cos, "exponential": math.Exp,
	"exponential_minus_one": math.Expm1,
	"floor":                 math.Floor, "log": math.Log, "log_plus_one": math.Log1p,
	"negate":             func(x float64) float64 { return -x },
	"logistic":           func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	"round_nearest_even": math.RoundToEven, "rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	"sine": math.Sin, "sqrt": math.Sqrt, "tanh": math.Tanh,
	"sign": func(x float64) float64 {
		if x == 0 || x != x {
			return x
		}
		return math.Copysign(1, x)
	},
}

var unaryInt = map[string]func(x int64) int64{
	"abs": func(x int64) int64 { return max(x, -x) }, "negate": func(x int64) int64 { return -x },
	"not":  func(x int64) int64 { return ^x },
	"sign": func(x int64) int64 { return min(1, max(-1, x)) },
}

var binaryFloat = map[string]func(x, y float64) float64{
	"add": func(x, y float64) float64 { return x + y }, "subtract": func(x, y float64) float64 { return x - y },
	"multiply": func(x, y float64) float64 { return x * y }, "divide": func(x,
		y float64) float64 {
		return x / y
	},
	"atan2": math.Atan2, "maximum": math.Max, "minimum": math.Min, "power": math.Pow, "remainder": math.Mod,
}

var binaryInt = map[string]func(x, y int64) int64{
	"add": func(x, y int64) int64 { return x + y }, "subtract": func(x, y int64) int64 { return x - y },
	"multiply": func(x, y int64) int64 { return x * y },
	"divide": func(x, y int64) int64 {
		if y == 0 {
			return -1
		}
		return x / y
	},
	"remainder": func(x, y int64) int64 {
		if y == 0 {
			return x
		}
		return x % y
	},
	"maximum": func(x, y int64) int64 { return max(x, y) }, "minimum": func(x,
		y int64) int64 {
		return min(x, y)
	},
	"and": func(x, y int64) int64 { return x & y }, "or": func(x, y int64) int64 { return x | y },
	"xor": func(x, y int64) int64 { return x ^ y }, "shift_left": func(x, y int64) int64 { return x << y },
	"power": func(x, y int64) int64 { return int64(math.Pow(float64(x), float64(y))) },
}

// elementwise runs an elementwise operation; it returns false if name is not one.
func elementwise(name string, in []tensor) (tensor, bool) {
	if len(in) == 0 {
		return tensor{}, false
	}
	t := in[0].TensorType
	switch {
	case len(in) == 1 && in[0].f != nil && unaryFloat[name] != nil:
		f, out := unaryFloat[name], newTensor(t)
		for i, x := range in[0].f {
			out.f[i] = round(t.Elem, f(x))
		}
		return out, true
	case len(in) == 1 && in[0].f == nil && unaryInt[name] != nil:
		f, out := unaryInt[name], newTensor(t)
		for i, x := range in[0].i {
			out.i[i] = wrap(t.Elem, f(x))
		}
		return out, true
	case len(in) == 2 && in[0].f != nil && binaryFloat[name] != nil:
		f, out := binaryFloat[name], newTensor(t)
		for i, x := range in[0].f {
			out.f[i] = round(t.Elem, f(x, in[1].f[i]))
		}
		return out, true
	case len(in) == 2 && in[0].f == nil && name == "shift_right_logical":
		return shiftRight(in), true
	case len(in) == 2 && in[0].f == nil && binaryInt[name] != nil:
		f, out := binaryInt[name], newTensor(t)
		for i, x := range in[0].i {
			out.i[i] = wrap(t.Elem, f(x, in[1].i[i]))
		}
		return out, true
	}
	return tensor{}, false
}

func shiftRight(in []tensor) tensor {
	out := newTensor(in[0].TensorType)
	for i, x := range in[0].i {
		bits := uint64(x)
		switch out.Elem {
		case "i32":
			bits = uint64(uint32(x))
		case "i16":
			bits = uint64(uint16(x))
		}
		out.i[i] = wrap(out.Elem, int64(bits>>uint64(in[1].i[i])))
	}
	return out
}

func compare(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	out := newTensor(hlo.TensorType{Elem: "i1", Shape: in[0].Shape})
	direction := o.Attr("comparison_direction").(hlo.EnumAttr).Value
	total := false
	if a, ok := o.Attr("compare_type").(hlo.EnumAttr); ok {
		total = a.Value == "TOTALORDER"
	}
	for i := range out.i {
		var less, equal bool
		if in[0].f != nil {
			x, y := in[0].f[i], in[1].f[i]
			less, equal = x < y, x == y
			if total {
				less, equal = totalKey(x) < totalKey(y), totalKey(x) == totalKey(y)
			} else if x != x || y != y {
				out.i[i] = int64(boolOf(direction == "NE"))
				continue
			}
		} else {
			less, equal = in[0].i[i] < in[1].i[i], in[0].i[i] == in[1].i[i]
		}
		holds := map[string]bool{"EQ": equal, "NE": !equal, "LT": less, "LE": less || equal, "GT": !less && !equal,
			"GE": !less}[direction]
		out.i[i] = int64(boolOf(holds))
	}
	return []tensor{out}
}

// totalKey maps floats to integers in IEEE's total order.
func totalKey(x float64) int64 {
	bits := int64(math.Float64bits(x))
	if bits < 0 {
		return bits ^ math.MaxInt64
	}
	return bits
}

func boolOf(b bool) int {
	if b {
		return 1
	}
	return 0
}

func convert(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	out := newTensor(hlo.TensorType{Elem: o.Out[0].Elem, Shape: in[0].Shape})
	for i := range out.Len() {
		switch {
		case out.f != nil && in[0].f != nil:
			out.f[i] = round(out.Elem, in[0].f[i])
		case out.f != nil:
			out.f[i] = round(out.Elem, float64(in[0].i[i]))
		case out.Elem == "i1" && in[0].f != nil:
			out.i[i] = int64(boolOf(in[0].f[i] != 0))
		case out.Elem == "i1":
			out.i[i] = int64(boolOf(in[0].i[i] != 0))
		case in[0].f != nil:
			out.i[i] = wrap(out.Elem, int64(in[0].f[i]))
		default:
			out.i[i] = wrap(out.Elem, in[0].i[i])
		}
	}
	return []tensor{out}
}

// bitcast reinterprets elements' bits as another type.
func bitcast(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	a := in[0].array()
	return []tensor{fromArray(array.View(dtypeOf(o.Out[0].Elem), a.Shape(), a.Bytes()))}
}

func selectOp(_ *machine, _ *hlo.Operation, in []tensor) []tensor {
	out := newTensor(in[1].TensorType)
	for i := range out.Len() {
		which := in[0].i[0]
		if len(in[0].Shape) > 0 {
			which = in[0].i[i]
		}
		out.copyOf(i, in[2-which], i)
	}
	return []tensor{out}
}

func clamp(_ *machine, _ *hlo.Operation, in []tensor) []tensor {
	low, x, high := in[0], in[1], in[2]
	out := newTensor(x.TensorType)
	at := func(t tensor, i int) int {
		if len(t.Shape) == 0 {
			return 0
		}
		return i
	}
	for i := range out.Len() {
		if out.f != nil {
			out.f[i] = math.Min(math.Max(x.f[i], low.f[at(low, i)]), high.f[at(high, i)])
		} else {
			out.i[i] = min(max(x.i[i], low.i[at(low, i)]), high.i[at(high, i)])
		}
	}
	return []tensor{out}
}

func isFinite(_ *machine, _ *hlo.Operation, in []tensor) []tensor {
	out := newTensor(hlo.TensorType{Elem: "i1", Shape: in[0].Shape})
	for i, x := range in[0].f {
		out.i[i] = int64(boolOf(!math.IsInf(x, 0) && x == x))
	}
	return []tensor{out}
}
