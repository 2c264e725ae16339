package op

import (
	"fmt"

	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
)

// ModuleConfig says how a program becomes a StableHLO module; the zero value is for one device of any kind, and keeps its
// operands.
type ModuleConfig struct {
	hlo.Config
	// Donate is the parameters whose memory the program may use.
	Donate []Donation
}

// Donation gives a parameter's memory to a result of its type; a negative Result leaves the choice to the compiler.
type Donation struct{ Param, Result int }

// Module is a program for one device, with its collectives, as StableHLO text whose function is called main: parameters and
// results are those of f, in order.
func Module(f *ir.Func, c ModuleConfig) (string, error) {
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
	results := EmitFunc(w, f, params)
	if err := w.Err(); err != nil {
		return "", err
	}
	return w.Module(f.Name(), results...), nil
}

func (d Donation) check(f *ir.Func) error {
	if d.Param < 0 || d.Param >= len(f.Params()) || d.Result >= len(f.Results()) {
		return fmt.Errorf("donation: parameter %d to result %d: the program has %d and %d", d.Param, d.Result, len(f.Params()), len(f.Results()))
	}
	if d.Result < 0 {
		return nil
	}
	if p, r := f.Params()[d.Param].Type(), f.Results()[d.Result].Type(); !p.Equal(r) {
		return fmt.Errorf("donation: parameter %d is %v and result %d is %v: want one type", d.Param, p, d.Result, r)
	}
	return nil
}
