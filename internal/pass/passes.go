package pass

import (
	"fmt"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
)

// Pass is a rewrite and its name.
type Pass struct {
	Name string
	Run  func(*ir.Func) (*ir.Func, error)
}

// Passes returns the passes that run on a program before it is compiled, in order; All returns those of other
// stages, too.
//
//	fold before merge: folding makes equal operands of different ones
//	merge before prune: merging leaves the duplicates unused
func Passes() []Pass { return List{passes: All()}.At(OnProgram) }

// checked runs a pass and checks that its result is a well-formed program.
func (p Pass) checked(f *ir.Func) (*ir.Func, error) {
	defer fault.Pass(p.Name, f)
	g, err := Everywhere(f, p.Run)
	if err != nil {
		return nil, fmt.Errorf("pass %s: %w", p.Name, err)
	}
	if err := ir.Check(g); err != nil {
		panic(fmt.Sprintf("pass %s made a bad program: %v", p.Name, err))
	}
	return g, nil
}

// Tidy folds, merges and prunes, for programs without a strategy.
func Tidy(f *ir.Func) (*ir.Func, error) {
	l, err := Select([]string{"fold", "merge", "prune"})
	if err != nil {
		return nil, err
	}
	return l.Run(OnProgram, f)
}

// Optimize runs all passes.
func Optimize(f *ir.Func) (*ir.Func, error) {
	return Until(f, "", nil)
}

// Until runs the passes up to and including last, or all; inspect, if not nil, is called with each result.
func Until(f *ir.Func, last string, inspect func(name string, f *ir.Func)) (*ir.Func, error) {
	for _, p := range Passes() {
		g, err := p.checked(f)
		if err != nil {
			return nil, err
		}
		f = g
		if inspect != nil {
			inspect(p.Name, f)
		}
		if p.Name == last {
			break
		}
	}
	return f, nil
}
