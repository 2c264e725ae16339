package mesh

import (
	"fmt"
	"slices"
	"strings"
)

// Spec is the layout of one tensor on one mesh.
//
//	@[dp,_]            dim 0 is split by axis dp, dim 1 is whole
//	@[dp.tp,_]         dim 0 is split by dp, and each piece by tp
//	@[tp:(1)2,tp:(2)2] dim 0 is split by the major part of tp, dim 1 by the part below it
//	@[_,_]+{tp}        every device along tp holds a term of the sum
//	@[_]+{dp,tp:max}   the value is the sum over dp of the maxima over tp: see Reduce.Before
//
// Axes that are not named hold copies.
type Spec struct {
	// Dims holds, for each dim of the tensor, the axes that split it, major first; empty for a dim that is not
	// split.
	Dims []Axes
	// Partial holds the axes along which devices hold terms that have yet to be reduced. Those that this package
	// makes are sorted by name and part.
	Partial []Pending
}

// Pending is an axis, or a part of one, along which values have yet to be reduced, and how.
type Pending struct {
	Sub
	Reduce Reduce
}

// String returns the axis, and the reduction unless it is a sum.
func (p Pending) String() string {
	if p.Reduce == Sum {
		return p.Sub.String()
	}
	return p.Sub.String() + ":" + p.Reduce.String()
}

// Whole returns the Spec of a replicated tensor.
func Whole(rank int) Spec { return Spec{Dims: make([]Axes, rank)} }

// Split returns the Spec of a tensor whose dims are split by these axes: one list for each dim, nil for a dim
// that is not split.
func Split(dims ...Axes) Spec { return Spec{Dims: dims} }

// Rank returns the number of dims.
func (s Spec) Rank() int { return len(s.Dims) }

// Clone returns a deep copy.
func (s Spec) Clone() Spec {
	c := Spec{Dims: make([]Axes, len(s.Dims)), Partial: slices.Clone(s.Partial)}
	for d, a := range s.Dims {
		c.Dims[d] = slices.Clone(a)
	}
	return c
}

// With returns the Spec with other partial axes; none means that everything is reduced.
func (s Spec) With(partial ...Pending) Spec {
	s = s.Clone()
	s.Partial = slices.Clone(partial)
	s.sortPartial()
	return s
}

func (s *Spec) sortPartial() {
	slices.SortStableFunc(s.Partial, func(a, b Pending) int {
		if c := strings.Compare(a.Axis, b.Axis); c != 0 {
			return c
		}
		return a.Pre - b.Pre
	})
}

// Equal reports whether both have the same dims and the same partial axes, in any order.
func (s Spec) Equal(o Spec) bool {
	if !slices.EqualFunc(s.Dims, o.Dims, Axes.Equal) || len(s.Partial) != len(o.Partial) {
		return false
	}
	return slices.Equal(s.Partial, o.Partial) ||
		slices.Equal(s.With(s.Partial...).Partial, o.With(o.Partial...).Partial)
}

// IsWhole reports whether the tensor is replicated on every device.
func (s Spec) IsWhole() bool { return len(s.Used()) == 0 }

// Used returns every axis that splits a dim or is partial, dims first.
func (s Spec) Used() Axes {
	var used Axes
	for _, a := range s.Dims {
		used = append(used, a...)
	}
	for _, p := range s.Partial {
		used = append(used, p.Sub)
	}
	return used
}

// Check returns an error if the Spec is invalid for tensors of a rank on a mesh: an unknown axis, an axis or
// a part of one used twice, another number of dims.
func (s Spec) Check(m *Mesh, rank int) error {
	if len(s.Dims) != rank {
		return fmt.Errorf("spec %s: got %d dims, want %d: those of the tensor", s, len(s.Dims), rank)
	}
	return m.checkUse("spec "+s.String(), s.Used(), s.user)
}

// user describes the use of the i-th axis of Used.
func (s Spec) user(i int) string {
	for d, a := range s.Dims {
		if i < len(a) {
			return fmt.Sprintf("splits dim %d", d)
		}
		i -= len(a)
	}
	if i < len(s.Partial) {
		return "is partial"
	}
	return "is replicated"
}

// Simplify merges adjacent parts of an axis wherever that does not change any device's piece. The shape has
// one size for each dim.
func (s Spec) Simplify(m *Mesh, shape []int) Spec {
	s = s.Clone()
	for d, a := range s.Dims {
		s.Dims[d] = m.simplify(a, shape[d])
	}
	return s
}

// dropUnitAxes returns the Spec without axes of size one, which change nothing.
func (s Spec) dropUnitAxes(m *Mesh) Spec {
	s = s.Clone()
	for d, a := range s.Dims {
		s.Dims[d] = m.dropUnitAxes(a)
	}
	s.Partial = slices.DeleteFunc(s.Partial, func(p Pending) bool { return m.Extent(p.Sub) == 1 })
	return s
}

// simplify merges neighbours in a list that splits n elements. Two parts split like their whole only if they
// do so evenly.
func (m *Mesh) simplify(a Axes, n int) Axes {
	var out Axes
	for _, s := range a {
		if k := len(out) - 1; k >= 0 && n%(m.Count(out)*m.Extent(s)) == 0 {
			if whole, ok := m.Join(out[k], s); ok {
				out[k] = whole
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// String returns the Spec's text, as in the table above.
func (s Spec) String() string {
	words := make([]string, len(s.Dims))
	for d, a := range s.Dims {
		words[d] = a.String()
	}
	return "@[" + strings.Join(words, ",") + "]" + s.partialText()
}

func (s Spec) partialText() string {
	if len(s.Partial) == 0 {
		return ""
	}
	words := make([]string, len(s.Partial))
	for i, p := range s.Partial {
		words[i] = p.String()
	}
	return "+{" + strings.Join(words, ",") + "}"
}

// ParseSpec parses a Spec as String prints it. The @ is optional.
func ParseSpec(text string) (Spec, error) {
	s := &scanner{text: text}
	sh, err := s.sharding()
	switch {
	case err != nil:
	case slices.ContainsFunc(sh.Freedom, func(d Freedom) bool { return d != Freedom{} }):
		err = fmt.Errorf("open dims and priorities: want a spec, which has none")
	case sh.Replicated != nil:
		err = fmt.Errorf("-%s: want a spec, in which axes that are not named hold copies", braces(sh.Replicated))
	}
	if err != nil {
		return Spec{}, fmt.Errorf("spec %q: %w", text, err)
	}
	return sh.Spec, nil
}
