package hlo

import (
	"fmt"
	"slices"
)

// rule checks the types of one operation.
type rule func(o *Operation) error

// rules holds a rule for every operation that a program may have.
var rules map[string]rule

func init() {
	rules = map[string]rule{
		"constant": constantRule, "iota": iotaRule, "convert": convertRule, "bitcast_convert": bitsRule,
		"compare": compareRule, "select": selectRule,
		"clamp": clampRule, "is_finite": finiteRule, "optimization_barrier": allSame,
		"broadcast_in_dim": broadcastRule, "reshape": reshapeRule, "transpose": transposeRule, "slice": sliceRule,
		"pad":         padRule,
		"concatenate": concatenateRule, "reverse": reverseRule, "dynamic_slice": dynamicSliceRule,
		"dynamic_update_slice": dynamicUpdateRule, "reduce": reduceRule, "reduce_window": windowRule,
		"select_and_scatter": selectScatterRule, "sort": allSame, "while": allSame, "dot_general": dotRule,
		"convolution": convRule, "gather": gatherRule, "scatter": scatterRule, "custom_call": customRule,
		"case": caseRule, "replica_id": deviceRule, "all_reduce": allSame, "all_gather": allGatherRule,
		"reduce_scatter": reduceScatterRule, "all_to_all": allToAllRule, "collective_permute": allSame,
	}
	for _, name := range []string{"ceil", "cosine", "exponential", "exponential_minus_one", "floor", "log",
		"log_plus_one", "logistic",
		"round_nearest_even", "rsqrt", "sine", "sqrt", "tanh"} {
		rules[name] = elementRule(1, "f64", "f32", "bf16", "f16")
	}
	for _, name := range []string{"abs", "sign"} {
		rules[name] = elementRule(1, "f64", "f32", "bf16", "f16", "i64", "i32", "i16")
	}
	rules["atan2"] = elementRule(2, "f64", "f32", "bf16", "f16")
	rules["negate"] = elementRule(1, elems[:len(elems)-1]...)
	rules["not"] = elementRule(1, "i64", "i32", "i16", "ui32", "ui8", "i1")
	for _, name := range []string{"add", "maximum", "minimum", "multiply"} {
		rules[name] = elementRule(2, elems...)
	}
	for _, name := range []string{"subtract", "divide", "remainder", "power"} {
		rules[name] = elementRule(2, elems[:len(elems)-1]...)
	}
	for _, name := range []string{"and", "or", "xor"} {
		rules[name] = elementRule(2, "i64", "i32", "i16", "ui32", "ui8", "i1")
	}
	for _, name := range []string{"shift_left", "shift_right_logical"} {
		rules[name] = elementRule(2, "i64", "i32", "i16", "ui32", "ui8")
	}
}

// elementRule returns a rule for n operands and a result of one type, with one of the given element types.
func elementRule(n int, elems ...string) rule {
	return func(o *Operation) error {
		if err := counts(o, n, 1); err != nil {
			return err
		}
		if !slices.Contains(elems, o.Out[0].Elem) {
			return fmt.Errorf("got %v: want elements of %v", o.Out[0], elems)
		}
		for _, t := range o.In {
			if !t.Equal(o.Out[0]) {
				return fmt.Errorf("got operands %s for %v: want that type", typeWords(o.In), o.Out[0])
			}
		}
		return nil
	}
}

// counts checks the numbers of operands and results; a negative one allows any.
func counts(o *Operation, in, out int) error {
	if in >= 0 && len(o.In) != in || out >= 0 && len(o.Out) != out {
		return fmt.Errorf("got %d operands and %d results: want %d and %d", len(o.In), len(o.Out), in, out)
	}
	return nil
}

// gives checks the type of the only result.
func gives(o *Operation, elem string, shape []int) error {
	if want := (TensorType{elem, shape}); !o.Out[0].Equal(want) {
		return fmt.Errorf("got %v of %s: want %v", o.Out[0], typeWords(o.In), want)
	}
	return nil
}

func allSame(o *Operation) error {
	if len(o.In) == 0 {
		return fmt.Errorf("got no operands")
	}
	return sameTypes("results", o.Out, o.In)
}

func constantRule(o *Operation) error {
	a, ok := o.Attr("value").(DenseAttr)
	if err := counts(o, 0, 1); err != nil || !ok {
		return fmt.Errorf("want a dense value and no operands: got %v: %v", o.Attr("value"), err)
	}
	return gives(o, a.Type.Elem, a.Type.Shape)
}

func iotaRule(o *Operation) error {
	if err := counts(o, 0, 1); err != nil {
		return err
	}
	_, err := dimOf(o, "iota_dimension", o.Out[0])
	return err
}

// dimOf returns an attribute that is a dim of a type.
func dimOf(o *Operation, name string, t TensorType) (int, error) {
	d, err := IntsOf(o.Attr(name))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if len(d) != 1 || d[0] < 0 || d[0] >= len(t.Shape) {
		return 0, fmt.Errorf("%s is %v: want a dim of %v", name, d, t)
	}
	return d[0], nil
}

// numbers returns an attribute of n integers.
func numbers(o *Operation, name string, n int) ([]int, error) {
	xs, err := IntsOf(o.Attr(name))
	if err == nil && len(xs) != n {
		err = fmt.Errorf("got %d numbers: want %d", len(xs), n)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return xs, nil
}

func convertRule(o *Operation) error {
	if err := counts(o, 1, 1); err != nil {
		return err
	}
	return gives(o, o.Out[0].Elem, o.In[0].Shape)
}

// bitsRule allows elements of equal size only; the dialect also allows splitting elements into smaller ones.
func bitsRule(o *Operation) error {
	if err := convertRule(o); err != nil {
		return err
	}
	if a, b := elemBits[o.In[0].Elem], elemBits[o.Out[0].Elem]; a != b {
		return fmt.Errorf("got %v for %v: want elements of one size", o.In[0], o.Out[0])
	}
	return nil
}

func compareRule(o *Operation) error {
	if err := counts(o, 2, 1); err != nil {
		return err
	}
	a, ok := o.Attr("comparison_direction").(EnumAttr)
	if !ok || !slices.Contains([]string{"EQ", "NE", "LT", "LE", "GT", "GE"}, a.Value) {
		return fmt.Errorf("comparison_direction is %v", o.Attr("comparison_direction"))
	}
	if !o.In[0].Equal(o.In[1]) {
		return fmt.Errorf("got %s: want one type", typeWords(o.In))
	}
	return gives(o, "i1", o.In[0].Shape)
}

func selectRule(o *Operation) error {
	if err := counts(o, 3, 1); err != nil {
		return err
	}
	p := o.In[0]
	if p.Elem != "i1" || len(p.Shape) > 0 && !slices.Equal(p.Shape, o.Out[0].Shape) ||
		!o.In[1].Equal(o.Out[0]) || !o.In[2].Equal(o.Out[0]) {
		return fmt.Errorf("got %s for %v", typeWords(o.In), o.Out[0])
	}
	return nil
}

func clampRule(o *Operation) error {
	if err := counts(o, 3, 1); err != nil {
		return err
	}
	for _, t := range o.In {
		if t.Elem != o.Out[0].Elem || len(t.Shape) > 0 && !t.Equal(o.Out[0]) {
			return fmt.Errorf("got %s for %v", typeWords(o.In), o.Out[0])
		}
	}
	return gives(o, o.In[1].Elem, o.In[1].Shape)
}

func finiteRule(o *Operation) error {
	if err := counts(o, 1, 1); err != nil {
		return err
	}
	return gives(o, "i1", o.In[0].Shape)
}

func caseRule(o *Operation) error {
	if err := counts(o, 1, -1); err != nil {
		return err
	}
	return sameTypes("branch's number", o.In, []TensorType{{Elem: "i32"}})
}

func deviceRule(o *Operation) error {
	if err := counts(o, 0, 1); err != nil {
		return err
	}
	return gives(o, "ui32", nil)
}

func isPermutation(perm []int, n int) bool {
	seen := make([]bool, n)
	for _, d := range perm {
		if d < 0 || d >= n || seen[d] {
			return false
		}
		seen[d] = true
	}
	return len(perm) == n
}
