package hlo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Verify type-checks a program: every value is defined once and before its use, is used with its type, and
// the types of each operation's operands and results are valid in StableHLO.
func (p *Program) Verify() error {
	return verifier{}.block(p.Main, p.Results)
}

type verifier struct{ types map[string]TensorType }

// block checks a block in which the values of v are visible.
func (v verifier) block(b Block, results []TensorType) error {
	own := verifier{types: map[string]TensorType{}}
	maps.Copy(own.types, v.types)
	for _, p := range b.Params {
		if err := own.define(p.Name, p.Type); err != nil {
			return err
		}
	}
	for i, o := range b.Ops {
		if err := own.operation(o, results, i == len(b.Ops)-1); err != nil {
			return fmt.Errorf("stablehlo: line %d: %s: %w", o.Line, o.Name, err)
		}
	}
	if len(b.Ops) == 0 {
		return fmt.Errorf("stablehlo: a block without a return")
	}
	return nil
}

func (v *verifier) define(name string, t TensorType) error {
	if _, ok := v.types[name]; ok {
		return fmt.Errorf("value %s is defined twice", name)
	}
	if !slices.Contains(elems, t.Elem) {
		return fmt.Errorf("value %s is %v: want elements of %v", name, t, elems)
	}
	v.types[name] = t
	return nil
}

var elems = []string{"f64", "f32", "bf16", "f16", "i64", "i32", "i16", "ui32", "ui8", "i1"}

// elemBits holds the sizes of element types.
var elemBits = map[string]int{"f64": 64, "f32": 32, "bf16": 16, "f16": 16, "i64": 64, "i32": 32, "i16": 16,
	"ui32": 32, "ui8": 8, "i1": 1}

func (v *verifier) operation(o *Operation, results []TensorType, last bool) error {
	for i, name := range o.Operands {
		t, ok := v.types[name]
		if !ok {
			return fmt.Errorf("value %s is not defined", name)
		}
		if !t.Equal(o.In[i]) {
			return fmt.Errorf("value %s is %v: got %v", name, t, o.In[i])
		}
	}
	if isReturn := o.Name == "func.return" || o.Name == "stablehlo.return"; isReturn || last {
		if !isReturn || !last {
			return fmt.Errorf("want a return at the end of a block and nowhere else")
		}
		return sameTypes("returned values", o.In, results)
	}
	name, ok := strings.CutPrefix(o.Name, "stablehlo.")
	rule := rules[name]
	if !ok || rule == nil {
		return fmt.Errorf("unknown operation")
	}
	if err := rule(o); err != nil {
		return err
	}
	for i, t := range o.Out {
		if err := v.define(o.ResultName(i), t); err != nil {
			return err
		}
	}
	return v.regions(name, o)
}

// regions checks the parameters and results of an operation's regions.
func (v *verifier) regions(name string, o *Operation) error {
	want, ok := regionRules[name]
	if !ok && len(o.Regions) > 0 {
		return fmt.Errorf("got %d regions: want none", len(o.Regions))
	}
	if !ok {
		return nil
	}
	signatures := want(o)
	if len(o.Regions) != len(signatures) {
		return fmt.Errorf("got %d regions: want %d", len(o.Regions), len(signatures))
	}
	for i, s := range signatures {
		params := make([]TensorType, len(o.Regions[i].Params))
		for j, p := range o.Regions[i].Params {
			params[j] = p.Type
		}
		if err := sameTypes("region's parameters", params, s.in); err != nil {
			return err
		}
		outer := verifier{} // computations are closed, except for branches
		if name == "case" {
			outer = *v
		}
		if err := outer.block(o.Regions[i], s.out); err != nil {
			return err
		}
	}
	return nil
}

func sameTypes(what string, got, want []TensorType) error {
	if typeWords(got) != typeWords(want) {
		return fmt.Errorf("%s: got %s: want %s", what, typeWords(got), typeWords(want))
	}
	return nil
}

// signature is the parameter and result types of a region.
type signature struct{ in, out []TensorType }

func scalarsOf(ts []TensorType) []TensorType {
	out := make([]TensorType, len(ts))
	for i, t := range ts {
		out[i] = TensorType{Elem: t.Elem}
	}
	return out
}

var truth = []TensorType{{Elem: "i1"}}

// folding returns the signature of a region that reduces the first half of the operands.
func folding(o *Operation) []signature {
	s := scalarsOf(o.In[:len(o.In)/2])
	return []signature{{slices.Concat(s, s), s}}
}

func binaryOf(t TensorType) signature {
	s := scalarsOf([]TensorType{t})
	return signature{slices.Concat(s, s), s}
}

var regionRules = map[string]func(o *Operation) []signature{
	"reduce": folding, "reduce_window": folding,
	"all_reduce":     func(o *Operation) []signature { return []signature{binaryOf(o.In[0])} },
	"reduce_scatter": func(o *Operation) []signature { return []signature{binaryOf(o.In[0])} },
	"scatter":        func(o *Operation) []signature { return []signature{binaryOf(o.In[0])} },
	"select_and_scatter": func(o *Operation) []signature {
		f := binaryOf(o.In[0])
		return []signature{{f.in, truth}, f}
	},
	"case": func(o *Operation) []signature {
		return slices.Repeat([]signature{{nil, o.Out}}, max(1, len(o.Regions)))
	},
	"while": func(o *Operation) []signature { return []signature{{o.In, truth}, {o.In, o.In}} },
	"sort": func(o *Operation) []signature {
		var in []TensorType
		for _, s := range scalarsOf(o.In) {
			in = append(in, s, s)
		}
		return []signature{{in, truth}}
	},
}
