package triton

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
)

// maxTensor is the most elements that Triton allows a tensor to have.
const maxTensor = 1 << 20

// typ is the type of a value: a number, a pointer to numbers, or a tensor of either.
type typ struct {
	elem    string
	pointer bool
	// lanes is the length of a tensor; 0 for a scalar.
	lanes int
}

// widths holds the element types and their sizes in bits.
var widths = map[string]int{"i1": 1, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}

// dtypes holds the element types that a kernel's pointers may have.
var dtypes = map[string]array.DType{
	"i32": array.I32, "i64": array.I64, "f16": array.F16, "bf16": array.BF16, "f32": array.F32, "f64": array.F64,
}

func (t typ) String() string {
	s := t.elem
	if t.pointer {
		s = "!tt.ptr<" + s + ">"
	}
	if t.lanes > 0 {
		s = fmt.Sprintf("tensor<%dx%s>", t.lanes, s)
	}
	return s
}

func (t typ) isFloat() bool { return !t.pointer && strings.Contains(t.elem, "f") }
func (t typ) isInt() bool   { return !t.pointer && !t.isFloat() }

// of returns the type with another element type and the same shape.
func (t typ) of(elem string) typ { return typ{elem: elem, lanes: t.lanes} }

// value is the current value of a name: floats, or integers. True is -1, the sign-extended bit of
// i1. A pointer is an element offset from the start of a parameter, the same parameter in all
// lanes.
type value struct {
	typ
	f     []float64
	i     []int64
	param int
}

func newValue(t typ) *value {
	if t.isFloat() {
		return &value{typ: t, f: make([]float64, max(t.lanes, 1))}
	}
	return &value{typ: t, i: make([]int64, max(t.lanes, 1))}
}

func (v *value) copyFrom(w *value) {
	copy(v.f, w.f)
	copy(v.i, w.i)
	v.param = w.param
}

// copyLane copies lane from of w to lane to of v.
func (v *value) copyLane(to int, w *value, from int) {
	if v.f != nil {
		v.f[to] = w.f[from]
	} else {
		v.i[to] = w.i[from]
	}
	v.param = w.param
}

// fill broadcasts a scalar to all lanes.
func (v *value) fill(w *value) {
	for l := range max(v.lanes, 1) {
		v.copyLane(l, w, 0)
	}
}

// fit rounds floats and wraps integers to the type.
func (v *value) fit() {
	switch v.elem {
	case "f32":
		for l, x := range v.f {
			v.f[l] = float64(float32(x))
		}
	case "bf16", "f16":
		for l, x := range v.f {
			v.f[l] = half(v.elem, x)
		}
	case "i32":
		for l, x := range v.i {
			v.i[l] = int64(int32(x))
		}
	case "i1":
		for l, x := range v.i {
			v.i[l] = -(x & 1)
		}
	}
}

func half(elem string, x float64) float64 {
	if elem == "bf16" {
		return float64(array.ToBFloat16(float32(x)).Float32())
	}
	return float64(array.ToFloat16(float32(x)).Float32())
}

// undefined is the value of masked lanes without a default: on a device it is unspecified.
const undefined = -0x5A5A5A5A

func (v *value) spoil(lane int) {
	if v.f != nil {
		v.f[lane] = math.NaN()
	} else {
		v.i[lane] = undefined
	}
}

// literal sets a lane to a number in text form.
func (v *value) literal(lane int, word string) error {
	hex, isHex := strings.CutPrefix(word, "0x")
	if isHex {
		bits, err := strconv.ParseUint(hex, 16, widths[v.elem])
		if err != nil {
			return fmt.Errorf("got %s: want bits of %s", word, v.elem)
		}
		v.bits(lane, bits)
		return nil
	}
	if v.f != nil {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil || !isDigit(strings.TrimPrefix(word, "-")[0]) || !strings.Contains(word, ".") {
			return fmt.Errorf("got %s: want a number of %s with a point, or its bits", word, v.elem)
		}
		v.f[lane] = x
		return nil
	}
	if v.elem == "i1" {
		truth := map[string]int64{"true": -1, "false": 0}
		x, ok := truth[word]
		if !ok {
			return fmt.Errorf("got %s: want true or false", word)
		}
		v.i[lane] = x
		return nil
	}
	x, err := strconv.ParseInt(word, 10, widths[v.elem])
	if err != nil || word[0] == '+' {
		return fmt.Errorf("got %s: want a number of %s", word, v.elem)
	}
	v.i[lane] = x
	return nil
}

// bits sets a lane from bits in the value's type.
func (v *value) bits(lane int, bits uint64) {
	switch v.elem {
	case "f64":
		v.f[lane] = math.Float64frombits(bits)
	case "f32":
		v.f[lane] = float64(math.Float32frombits(uint32(bits)))
	case "bf16":
		v.f[lane] = float64(array.BFloat16(bits).Float32())
	case "f16":
		v.f[lane] = float64(array.Float16(bits).Float32())
	case "i64":
		v.i[lane] = int64(bits)
	case "i32":
		v.i[lane] = int64(int32(uint32(bits)))
	default:
		v.i[lane] = -int64(bits & 1)
	}
}
