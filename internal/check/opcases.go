package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/op"
)

// opAttrs is every attribute that a recorded case may carry, with PyTorch's meaning.
type opAttrs struct {
	Dim            dims     `json:"dim"`
	KeepDim        bool     `json:"keepdim"`
	Unbiased       bool     `json:"unbiased"`
	Approximate    string   `json:"approximate"`
	Exponent       float64  `json:"exponent"`
	Eps            float64  `json:"eps"`
	TransposeA     bool     `json:"transpose_a"`
	TransposeB     bool     `json:"transpose_b"`
	Equation       string   `json:"equation"`
	Start          []int    `json:"start"`
	End            []int    `json:"end"`
	Step           []int    `json:"step"`
	Sizes          []int    `json:"sizes"`
	Perm           []int    `json:"perm"`
	Shape          []int    `json:"shape"`
	Reps           []int    `json:"reps"`
	Low            []int    `json:"low"`
	High           []int    `json:"high"`
	Value          float64  `json:"value"`
	Shift          dims     `json:"shift"`
	Diagonal       int      `json:"diagonal"`
	K              int      `json:"k"`
	Descending     bool     `json:"descending"`
	NumClasses     int      `json:"num_classes"`
	Reduction      string   `json:"reduction"`
	IgnoreIndex    *int     `json:"ignore_index"`
	LabelSmoothing float64  `json:"label_smoothing"`
	Causal         bool     `json:"causal"`
	Layout         string   `json:"layout"`
	Scale          float64  `json:"scale"`
	Window         int      `json:"window"`
	Theta          float64  `json:"theta"`
	Style          string   `json:"style"`
	Stride         dims     `json:"stride"`
	Padding        dims     `json:"padding"`
	Dilation       dims     `json:"dilation"`
	OutputPadding  dims     `json:"output_padding"`
	P              real     `json:"p"`
	NumGroups      int      `json:"num_groups"`
	Beta           float64  `json:"beta"`
	Delta          float64  `json:"delta"`
	LogTarget      bool     `json:"log_target"`
	Groups         int      `json:"groups"`
	Kernel         dims     `json:"kernel"`
	Min            *float64 `json:"min"`
	Max            *float64 `json:"max"`
}

// dims is a number or a list of them.
type dims []int

// UnmarshalJSON reads either form.
func (d *dims) UnmarshalJSON(b []byte) error {
	if string(b) == "null" { // all dims
		return nil
	}
	var one int
	if err := json.Unmarshal(b, &one); err == nil {
		*d = dims{one}
		return nil
	}
	return json.Unmarshal(b, (*[]int)(d))
}

// real is a number that may be written as "inf" or "-inf", which JSON has no number for.
type real float64

// UnmarshalJSON reads either form.
func (n *real) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*n = real(f)
	return err
}

// first returns the only number of a list that holds one; else otherwise.
func (d dims) first(otherwise int) int {
	if len(d) == 0 {
		return otherwise
	}
	return d[0]
}

// layouts are the orders of dims that Galley's ops have; a case in another order would need other numbers.
var layouts = []string{"", "batch,seq,heads,dim", "NCHW", "NCL"}

// tensors is a function of a case's operands, and how many of them it takes.
type tensors struct {
	least, most int
	of          func(in []*op.Tensor) []*op.Tensor
}

// opBuilder returns the function that a recorded case names. An attribute that is not understood is an error:
// it could mean another function.
func opBuilder(name string, text json.RawMessage) (tensors, error) {
	var a opAttrs
	if len(text) > 0 {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&a); err != nil {
			return tensors{}, fmt.Errorf("op %s: attributes %s: %w", name, text, err)
		}
	}
	if !slices.Contains(layouts, a.Layout) {
		return tensors{}, fmt.Errorf("op %s: layout %q: want one of %q", name, a.Layout, layouts[1:])
	}
	for _, table := range []map[string]tensors{unaryCases(), binaryCases(), a.elementCases(), a.reductionCases(),
		a.shapeCases(), a.indexCases(), a.layerCases(), a.lossCases()} {
		if f, ok := table[name]; ok {
			return f, nil
		}
	}
	return tensors{}, fmt.Errorf("op %s: no such op", name)
}

func one(x *op.Tensor) []*op.Tensor { return []*op.Tensor{x} }

func lift1(f func(x *op.Tensor) *op.Tensor) tensors {
	return tensors{1, 1, func(in []*op.Tensor) []*op.Tensor { return one(f(in[0])) }}
}

func lift2(f func(x, y *op.Tensor) *op.Tensor) tensors {
	return tensors{2, 2, func(in []*op.Tensor) []*op.Tensor { return one(f(in[0], in[1])) }}
}

func lift3(f func(x, y, z *op.Tensor) *op.Tensor) tensors {
	return tensors{3, 3, func(in []*op.Tensor) []*op.Tensor { return one(f(in[0], in[1], in[2])) }}
}

func liftAll(f func(in []*op.Tensor) *op.Tensor) tensors {
	return tensors{1, math.MaxInt, func(in []*op.Tensor) []*op.Tensor { return one(f(in)) }}
}

func unaryCases() map[string]tensors {
	table := map[string]tensors{}
	for name, f := range map[string]func(*op.Tensor) *op.Tensor{
		"exp": op.Exp, "log": op.Log, "sqrt": op.Sqrt, "rsqrt": op.Rsqrt, "tanh": op.Tanh, "sigmoid": op.Sigmoid,
		"relu": op.ReLU, "silu": op.SiLU, "sin": op.Sin, "cos": op.Cos, "abs": op.Abs, "neg": op.Neg, "erf": op.Erf,
		"square": op.Square, "reciprocal": op.Reciprocal, "log1p": op.Log1p, "expm1": op.Expm1, "softplus": op.Softplus,
		"sign": op.Sign, "floor": op.Floor, "ceil": op.Ceil, "round": op.Round, "logical_not": op.LogicalNot,
		"isfinite": op.IsFinite, "is_finite": op.IsFinite,
	} {
		table[name] = lift1(f)
	}
	return table
}

func binaryCases() map[string]tensors {
	table := map[string]tensors{}
	for name, f := range map[string]func(x, y *op.Tensor) *op.Tensor{
		"add": op.Add, "sub": op.Sub, "mul": op.Mul, "div": op.Div, "maximum": op.Maximum, "minimum": op.Minimum,
		"equal": op.Equal, "eq": op.Equal, "not_equal": op.NotEqual, "ne": op.NotEqual, "greater": op.Greater, "gt": op.Greater,
		"greater_equal": op.GreaterEqual, "ge": op.GreaterEqual, "less": op.Less, "lt": op.Less, "less_equal": op.LessEqual, "le": op.LessEqual,
		"logical_and": op.LogicalAnd, "logical_or": op.LogicalOr, "logical_xor": op.LogicalXor, "swiglu": op.SwiGLU,
		"remainder": op.Mod,
	} {
		table[name] = lift2(f)
	}
	return table
}
