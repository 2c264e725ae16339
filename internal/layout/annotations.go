package layout

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// strategyAxes holds the axes by which a strategy can split parameters; those of size one split nothing.
var strategyAxes = []string{strategy.DataAxis, strategy.ExpertAxis, strategy.ContextAxis, strategy.TensorAxis}

// CheckAnnotations returns an error for an annotation that matches no parameter: a typo would otherwise be
// ignored silently.
func CheckAnnotations(list []mesh.Annotation, params []*nn.Param) error {
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	for _, a := range list {
		if err := check(a, names); err != nil {
			return fmt.Errorf("annotation %s: %w", a, err)
		}
		for _, p := range params {
			if got, want := len(a.Sharding.Spec.Dims), len(p.Type.Shape); a.Matches(p.Name) && got != want {
				return fmt.Errorf("annotation %s: parameter %q is %v: got %d dims, want %d", a, p.Name, p.Type, got, want)
			}
		}
	}
	return nil
}

// check is like CheckAnnotations for the name of one of them.
func check(a mesh.Annotation, params []string) error {
	if _, err := path.Match(a.Pattern, ""); err != nil {
		return fmt.Errorf("pattern %q: %w", a.Pattern, err)
	}
	if !slices.ContainsFunc(params, a.Matches) {
		return fmt.Errorf("it matches no parameter: want one like %s", someOf(params))
	}
	if len(a.Sharding.Spec.Partial) > 0 {
		return fmt.Errorf("a parameter is sharded or replicated: got partial sums")
	}
	for _, x := range a.Sharding.Spec.Used() {
		if !slices.Contains(strategyAxes, x.Axis) {
			return fmt.Errorf("axis %s: want one of a strategy's: %s", x.Axis, strings.Join(strategyAxes, ", "))
		}
	}
	return nil
}

// AnnotatedError reports a program for one device that requests others.
type AnnotatedError struct{ Err error }

func (e *AnnotatedError) Error() string { return e.Err.Error() }
func (e *AnnotatedError) Unwrap() error { return e.Err }

// CheckConstraints returns an error for a line of a traced program that requests other devices than the only
// one: it would otherwise be ignored silently.
func CheckConstraints(p *ir.Func) error {
	for _, n := range p.Nodes() {
		c, ok := n.Op().(op.Constrainer)
		if !ok {
			continue
		}
		m, _, err := c.Constraint()
		if err == nil && (m.Size() > 1 || !m.Contains(0)) {
			err = fmt.Errorf("mesh %v: got one device, want a Strategy of its devices, or Distribute for a "+
				"program as it is annotated", m)
		}
		if err != nil {
			return &AnnotatedError{&ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}}
		}
	}
	return nil
}
