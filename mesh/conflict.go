package mesh

import (
	"fmt"
	"slices"
)

// Conflict is a reason why axes cannot split a factor as a tensor requests.
type Conflict struct {
	Kind ConflictKind
	// Factor is the factor's number and Name its name; -1 and 0 for a dim without factors.
	Factor int
	Name   byte
	// Tensor is the number of the tensor that requests the axes or forbids them, and Where describes it; -1 and
	// "" if no tensor is involved.
	Tensor int
	Where  string
	// Axes holds what cannot be granted.
	Axes Axes
	// Kept holds what splits the factor instead.
	Kept Axes
}

// ConflictKind is the kind of a conflict.
type ConflictKind uint8

// Kinds of conflicts.
const (
	// Differ: another tensor splits the factor differently.
	Differ ConflictKind = iota
	// Reuse: the axis already splits another factor.
	Reuse
	// MustBeWhole: the rule forbids splitting the factor, or the dim has none.
	MustBeWhole
	// Uneven: the axes do not divide a factor that must be split evenly.
	Uneven
	// Scattered: a factor above this one in a compound dim is not split completely, so the pieces would not be
	// contiguous.
	Scattered
)

var conflictTexts = [...]string{
	Differ:      "another tensor splits it differently",
	Reuse:       "the axis splits another factor",
	MustBeWhole: "it must be whole",
	Uneven:      "they do not divide it",
	Scattered:   "the factors above it in its dim are not split to the end",
}

// String describes the reason.
func (k ConflictKind) String() string {
	if int(k) < len(conflictTexts) {
		return conflictTexts[k]
	}
	return fmt.Sprintf("ConflictKind(%d)", uint8(k))
}

// Error describes which axes cannot split which factor, and why.
func (c Conflict) Error() string {
	what := "a dim without factors"
	if c.Factor >= 0 {
		what = "factor " + string(c.Name)
	}
	if c.Where != "" {
		what += " of " + c.Where
	}
	return fmt.Sprintf("%s: cannot be split by %s: %s: kept %s", what, c.Axes, c.Kind, c.Kept)
}

// Resolve makes one assignment from what the tensors request; a tensor without projection (the zero value)
// requests nothing. The order decides: of two tensors that differ on a factor, the first wins, though a later
// one may extend its list; of two factors that request one axis, the first in the rule; in a compound dim,
// the major factor. The assignment is always legal. What it does not grant is listed.
func (p *Parsed) Resolve(m *Mesh, tensors []Projection) (Assignment, []Conflict) {
	a := make(Assignment, len(p.Factors))
	var conflicts []Conflict
	for t, pr := range tensors {
		if bare := slices.Concat(pr.Bare...); len(m.dropUnitAxes(bare)) > 0 {
			conflicts = append(conflicts, Conflict{Kind: MustBeWhole, Factor: -1, Tensor: t, Where: p.Name(t),
				Axes: bare})
		}
		for f := range pr.Axes {
			longer, ok := m.longer(a[f], pr.Axes[f])
			if !ok {
				conflicts = append(conflicts, p.conflict(Differ, f, t, pr.Axes[f], a[f]))
			}
			a[f] = longer
			if len(pr.Rest[f]) > 0 {
				conflicts = append(conflicts, p.conflict(Uneven, f, t, pr.Rest[f], a[f]))
			}
		}
	}
	a = a.Clone()
	return a, append(conflicts, p.resolve(m, a)...)
}

// longer returns the one of two lists that has the other as prefix; if neither does, the first. Axes of size
// one make no difference.
func (m *Mesh) longer(a, b Axes) (Axes, bool) {
	x, y := m.dropUnitAxes(a), m.dropUnitAxes(b)
	switch {
	case m.HasPrefix(a, b):
		return a, true
	case m.HasPrefix(b, a):
		return b, true
	case m.HasPrefix(x, y):
		return a, true
	case m.HasPrefix(y, x):
		return b, true
	}
	return a, false
}

func (p *Parsed) conflict(k ConflictKind, f, t int, axes, kept Axes) Conflict {
	return Conflict{Kind: k, Factor: f, Name: p.Factors[f].Name, Tensor: t, Where: p.Name(t), Axes: axes,
		Kept: kept}
}

// Check returns what is illegal about an assignment; nothing if the op can run under it.
func (p *Parsed) Check(m *Mesh, a Assignment) []Conflict { return p.resolve(m, a.Clone()) }

// resolve removes the axes that the rule does not allow from an assignment, in place.
func (p *Parsed) resolve(m *Mesh, a Assignment) []Conflict {
	s := &resolver{p: p, m: m, a: a}
	for t := range p.NumTensors() {
		s.tensors = append(s.tensors, t)
	}
	s.whole()
	s.reuse()
	s.mean()
	for s.compounds() {
	}
	return s.conflicts
}

// Fit returns the part of an assignment that one tensor can have: nothing for factors that it lacks, and for
// a compound dim as much as leaves its pieces contiguous. Inference uses it, in which each tensor takes what
// it can; an op runs under what all tensors can have, which Resolve returns.
func (p *Parsed) Fit(m *Mesh, t int, a Assignment) Assignment {
	a = a.Clone()
	for f := range a {
		if !p.Has(t, f) {
			a[f] = nil
		}
	}
	s := &resolver{p: p, m: m, a: a, tensors: []int{t}}
	s.whole()
	s.reuse()
	for s.compounds() {
	}
	return a
}

type resolver struct {
	p *Parsed
	m *Mesh
	a Assignment
	// tensors holds the numbers of those whose dims count.
	tensors   []int
	conflicts []Conflict
}

// keep shortens the axes of a factor to the first n of them.
func (s *resolver) keep(k ConflictKind, f, t, n int) {
	lost := s.a[f][n:]
	s.a[f] = s.a[f][:n:n]
	if len(s.m.dropUnitAxes(lost)) > 0 { // axes of size one make no difference
		s.conflicts = append(s.conflicts, s.p.conflict(k, f, t, lost, s.a[f]))
	}
}

// whole clears the factors that no axis may split.
func (s *resolver) whole() {
	for f := range s.a {
		if len(s.a[f]) == 0 {
			continue
		}
		if s.p.Factors[f].Whole {
			s.keep(MustBeWhole, f, -1, 0)
			continue
		}
		for _, t := range s.tensors {
			if s.p.count(t, f) > 1 { // one axis cannot split two dims of a tensor
				s.keep(MustBeWhole, f, t, 0)
				break
			}
		}
	}
}

// reuse assigns each axis to the first factor that has it. An op's iteration space is split like a tensor:
// with one axis on two factors, only their diagonal blocks would be computed.
func (s *resolver) reuse() {
	for f := range s.a {
		s.a[f] = slices.DeleteFunc(s.a[f], func(x Sub) bool {
			return s.m.Extent(x) == 1 && s.reused(f, x,
				s.a[f][:0])
		})
		for i, axis := range s.a[f] {
			if s.reused(f, axis, s.a[f][:i]) {
				s.keep(Reuse, f, -1, i)
				break
			}
		}
	}
}

// reused reports whether an axis already splits the factor, or an earlier one with which it cannot be shared.
func (s *resolver) reused(f int, axis Sub, before Axes) bool {
	if s.m.Overlap(axis, before) {
		return true
	}
	for g := range f {
		if s.m.Overlap(axis, s.a[g]) && !(slices.Contains(s.a[g], axis) && s.p.Shares(f, g)) {
			return true
		}
	}
	return false
}

// Exchanges reports whether devices communicate inside the op under an assignment: a joint factor is split
// and, if it is shared, by an axis that splits another factor as well. Otherwise the op's own rule suffices.
func (p *Parsed) Exchanges(m *Mesh, a Assignment) bool {
	for f, axes := range a {
		if !p.Factors[f].Joint || m.Count(axes) == 1 {
			continue
		}
		if !p.Factors[f].Shared || p.sharesAny(m, a, f) {
			return true
		}
	}
	return false
}

// sharesAny reports whether an axis of a factor also splits another one.
func (p *Parsed) sharesAny(m *Mesh, a Assignment, f int) bool {
	for g := range a {
		for _, x := range a[f] {
			if g != f && m.Extent(x) > 1 && m.Overlap(x, a[g]) {
				return true
			}
		}
	}
	return false
}

// Shares reports whether one axis may split both factors: one of them is shared, and no tensor has both.
func (p *Parsed) Shares(f, g int) bool {
	if !p.Factors[f].Shared && !p.Factors[g].Shared {
		return false
	}
	for t := range p.NumTensors() {
		if p.Has(t, f) && p.Has(t, g) {
			return false
		}
	}
	return true
}

// mean requires even splits for means, because the mean of the means of unequal parts is not the mean.
func (s *resolver) mean() {
	for f, factor := range s.p.Factors {
		for t := len(s.p.In); t < s.p.NumTensors(); t++ {
			if factor.Reduce == Mean && !s.p.Has(t, f) {
				s.even(f, t)
			}
		}
	}
}

// even shortens the axes of a factor until they divide it, keeping a part of an axis that does. It reports
// whether anything changed.
func (s *resolver) even(f, t int) bool {
	taken, lost, _ := s.m.fill(s.p.Factors[f].Size, slices.Clone(s.a[f]))
	if len(lost) == 0 {
		return false
	}
	s.a[f] = taken
	s.conflicts = append(s.conflicts, s.p.conflict(Uneven, f, t, lost, taken))
	return true
}

// compounds keeps pieces of compound dims contiguous: all factors but the last are split evenly, and none is
// split below one that is not split completely. It reports whether anything changed: a factor may be in two
// such dims.
func (s *resolver) compounds() bool {
	changed := false
	for _, t := range s.tensors {
		for _, factors := range s.p.Tensor(t) {
			done := true // all factors so far are split completely
			for i, name := range factors {
				f := s.p.Index(name)
				if !done && len(s.a[f]) > 0 {
					s.keep(Scattered, f, t, 0)
					changed = true
				}
				if i < len(factors)-1 && s.even(f, t) {
					changed = true
				}
				done = done && s.m.Count(s.a[f]) == s.p.Factors[f].Size
			}
		}
	}
	return changed
}
