package lower

import (
	"errors"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// ModuleConfig configures the translation to a StableHLO module. The zero value is for one device of any kind
// and donates no parameters.
type ModuleConfig struct {
	hlo.Config
	// Donate lists the parameters whose memory the program may reuse.
	Donate []Donation
}

// Donation gives a parameter's memory to a result of its type; a negative Result leaves the choice to the
// compiler.
type Donation struct{ Param, Result int }

// Donations pairs each of the given parameters of f with the first result of its type that is not taken yet;
// if there is none the compiler chooses.
func Donations(f *ir.Func, params []int) []Donation {
	taken := make([]bool, len(f.Results()))
	pairs := make([]Donation, len(params))
	for k, i := range params {
		pairs[k] = Donation{Param: i, Result: -1}
		for r, v := range f.Results() {
			if !taken[r] && v.Type().Equal(f.Params()[i].Type()) {
				pairs[k].Result, taken[r] = r, true
				break
			}
		}
	}
	return pairs
}

// Module returns the StableHLO text of a device's program, including its collectives. Its function is called
// main and has the parameters and results of f, in order.
func Module(f *ir.Func, c ModuleConfig) (string, error) { return SPMD([]*ir.Func{f}, c) }

// SPMD returns one module that every device runs. fs has the programs of devices 0, 1 and so on, or one
// program for all. They may differ only in the attributes of ops, such as the offset of a device's shard. An
// op that differs is written once in each form, and each device selects its own.
func SPMD(fs []*ir.Func, c ModuleConfig) (string, error) {
	defer fault.Pass("stablehlo", fs[0])
	f := fs[0]
	for i, g := range fs[1:] {
		if g == f {
			continue
		}
		if err := sameProgram(f, g); err != nil {
			return "", &DifferError{i + 1, err}
		}
	}
	w := hlo.NewWriter(c.Config)
	params := make([]hlo.Ref, len(f.Params()))
	for i, p := range f.Params() {
		params[i] = w.Param(hloType(p.Type()))
	}
	for _, d := range c.Donate {
		if err := d.check(f); err != nil {
			return "", err
		}
		w.Donate(d.Param, d.Result)
	}
	w.SetBodies(func(body any, in []hlo.Ref) []hlo.Ref {
		return emitFuncs(w, []*ir.Func{body.(*ir.Func)}, in, false)
	})
	results := emitFuncs(w, fs, params, len(fs) == 1)
	if err := w.Err(); err != nil {
		return "", err
	}
	return w.Module(f.Name(), results...), nil
}

// DifferError says that the programs of device 0 and of another device differ too much for one module.
type DifferError struct {
	Device int
	Err    error
}

func (e *DifferError) Error() string {
	return fmt.Sprintf("programs of devices 0 and %d: %v: a module for both needs equal parts", e.Device, e.Err)
}

func (e *DifferError) Unwrap() error { return e.Err }

// sameProgram returns an error unless two programs have the same values and types, computed by ops of the
// same names.
func sameProgram(f, g *ir.Func) error {
	if len(f.Nodes()) != len(g.Nodes()) || len(f.Params()) != len(g.Params()) || f.NumValues() != g.NumValues() {
		return fmt.Errorf("%d ops and %d", len(f.Nodes()), len(g.Nodes()))
	}
	if err := sameValues(f.Params(), g.Params()); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	for i, n := range f.Nodes() {
		m := g.Nodes()[i]
		if n.Op().Name() != m.Op().Name() {
			return fmt.Errorf("%s and %s at op %d", ir.FormatOp(n.Op()), ir.FormatOp(m.Op()), i)
		}
		if err := errors.Join(sameValues(n.In(), m.In()), sameValues(n.Out(), m.Out())); err != nil {
			return fmt.Errorf("%s at op %d: %w", n.Op().Name(), i, err)
		}
	}
	if err := sameValues(f.Results(), g.Results()); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}

// sameValues returns an error unless two lists of values have the same IDs and types.
func sameValues(xs, ys []*ir.Value) error {
	if len(xs) != len(ys) {
		return fmt.Errorf("%d values and %d", len(xs), len(ys))
	}
	for i, x := range xs {
		if y := ys[i]; x.ID() != y.ID() || !x.Type().Equal(y.Type()) {
			return fmt.Errorf("%%%d is %v and %%%d is %v", x.ID(), x.Type(), y.ID(), y.Type())
		}
	}
	return nil
}

// emitFuncs writes the programs of all devices as one, with in as parameters, and returns the results. alone
// means that all devices run the same program.
func emitFuncs(w *hlo.Writer, fs []*ir.Func, in []hlo.Ref, alone bool) []hlo.Ref {
	f := fs[0]
	refs := make([]hlo.Ref, f.NumValues())
	for i, p := range f.Params() {
		refs[p.ID()] = in[i]
	}
	own := kernelsOf(w, f, alone)
	own.each(f, func(k int, n *ir.Node) {
		if j, ok := own.at[n]; ok {
			j.emit(w, refs)
			return
		}
		forms, table := formsOf(fs, k)
		for i, r := range emitForms(w, forms, table, refsOf(refs, n.In()), ir.TypesOf(n.Out())) {
			refs[n.Out()[i].ID()] = r
		}
	})
	out := make([]hlo.Ref, len(f.Results()))
	for i, v := range f.Results() {
		out[i] = refs[v.ID()]
	}
	return out
}

// formsOf returns the distinct ops that devices have at node k, and for each device the index of its op.
func formsOf(fs []*ir.Func, k int) (forms []op.Op, table []int) {
	var texts []string
	for _, f := range fs {
		o := f.Nodes()[k].Op()
		text := ""
		if len(fs) > 1 {
			text = ir.FormatOp(o)
		}
		at := slices.Index(texts, text)
		if at < 0 {
			at = len(texts)
			texts, forms = append(texts, text), append(forms, o.(op.Op))
		}
		table = append(table, at)
	}
	return forms, table
}

// emitForms writes an op, or if it has several forms a case over the device.
func emitForms(w *hlo.Writer, forms []op.Op, table []int, in []hlo.Ref, out []ir.Type) []hlo.Ref {
	if len(forms) == 1 {
		return forms[0].Emit(w, in, out)
	}
	branches := make([]string, len(forms))
	for i, o := range forms {
		branches[i] = w.Region(nil, func([]hlo.Ref) []hlo.Ref { return o.Emit(w, in, out) })
	}
	return w.OpN("case", "", branches, hloTypes(out), w.PerDevice(table))
}

func (d Donation) check(f *ir.Func) error {
	if d.Param < 0 || d.Param >= len(f.Params()) || d.Result >= len(f.Results()) {
		return fmt.Errorf("donation: parameter %d to result %d: the program has %d and %d", d.Param, d.Result,
			len(f.Params()), len(f.Results()))
	}
	if d.Result < 0 {
		return nil
	}
	if p, r := f.Params()[d.Param].Type(), f.Results()[d.Result].Type(); !p.Equal(r) {
		return fmt.Errorf("donation: parameter %d is %v and result %d is %v: want one type", d.Param, p, d.Result,
			r)
	}
	return nil
}

func hloType(t ir.Type) hlo.Type { return hlo.Type{DType: t.DType, Shape: t.Shape} }

func hloTypes(ts []ir.Type) []hlo.Type {
	out := make([]hlo.Type, len(ts))
	for i, t := range ts {
		out[i] = hloType(t)
	}
	return out
}

// rowsOf returns the number of rows of an array and their length.
func rowsOf(s array.Shape) (rows, width int) { return s[:len(s)-1].Len(), s[len(s)-1] }
