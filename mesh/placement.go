package mesh

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Placement describes a tensor along one mesh axis: replicated, sharded along a dim, or partial (the devices
// hold terms that have yet to be reduced). A tensor has one Placement per mesh axis. The zero value is
// Replicate.
type Placement struct {
	kind   placementKind
	dim    int
	reduce Reduce
}

type placementKind uint8

const (
	replicated placementKind = iota
	sharded
	partial
)

// Replicate returns the placement of a tensor of which every device along the axis holds a copy.
func Replicate() Placement { return Placement{} }

// Shard returns the placement of a tensor whose dim the axis splits. A negative dim counts from the last: -1.
func Shard(dim int) Placement { return Placement{kind: sharded, dim: dim} }

// Partial returns the placement of a tensor that is the reduction of the terms on the devices along the axis.
func Partial(r Reduce) Placement { return Placement{kind: partial, reduce: r} }

// Dim returns the dim that the axis splits, and whether it splits one.
func (p Placement) Dim() (int, bool) { return p.dim, p.kind == sharded }

// Reduce returns how the terms are reduced, and whether the placement is partial.
func (p Placement) Reduce() (Reduce, bool) { return p.reduce, p.kind == partial }

// Replicated reports whether every device along the axis holds the same value.
func (p Placement) Replicated() bool { return p.kind == replicated }

// String returns R, S(dim) or P(reduction).
func (p Placement) String() string {
	switch p.kind {
	case sharded:
		return "S(" + strconv.Itoa(p.dim) + ")"
	case partial:
		return "P(" + p.reduce.String() + ")"
	}
	return "R"
}

// Placements holds one Placement for each axis of a mesh.
type Placements []Placement

// String returns the placements in brackets: [R, S(1)].
func (ps Placements) String() string {
	words := make([]string, len(ps))
	for i, p := range ps {
		words[i] = p.String()
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// Equal reports whether both lists are equal.
func (ps Placements) Equal(o Placements) bool { return slices.Equal(ps, o) }

// ParsePlacement parses R, S(0) or P(sum); P alone is P(sum).
func ParsePlacement(text string) (Placement, error) {
	s := &scanner{text: text}
	p, err := s.placement()
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return Placement{}, fmt.Errorf("placement %q: %w", text, err)
	}
	return p, nil
}

// ParsePlacements parses a list of placements: [R, S(1)].
func ParsePlacements(text string) (Placements, error) {
	s := &scanner{text: text}
	ps, err := s.placements()
	if err != nil {
		return nil, fmt.Errorf("placements %q: %w", text, err)
	}
	return ps, nil
}

func (s *scanner) placements() (Placements, error) {
	if err := s.want('['); err != nil {
		return nil, err
	}
	ps := Placements{}
	err := s.list(']', func() error {
		p, err := s.placement()
		ps = append(ps, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ps, s.end()
}

func (s *scanner) placement() (p Placement, err error) {
	switch {
	case s.eat('R'):
		return Replicate(), nil
	case s.eat('S'):
		if err := s.want('('); err != nil {
			return p, err
		}
		dim, err := s.number("a dim")
		if err != nil {
			return p, err
		}
		return Shard(dim), s.want(')')
	case s.eat('P'):
		if !s.eat('(') {
			return Partial(Sum), nil
		}
		r, err := s.reduce()
		if err != nil {
			return p, err
		}
		return Partial(r), s.want(')')
	}
	return p, s.unexpected("R, S(dim) or P(reduction)")
}

func (s *scanner) reduce() (Reduce, error) {
	name, err := s.name("a reduction")
	if err != nil {
		return Sum, err
	}
	return ParseReduce(name)
}

// Spec returns the placements as a Spec for tensors of a rank. Axes that split the same dim do so in mesh
// order.
func (ps Placements) Spec(m *Mesh, rank int) (Spec, error) {
	if len(ps) != len(m.axes) {
		return Spec{}, fmt.Errorf("placements %s: got %d, want %d: one for each axis of %s", ps, len(ps),
			len(m.axes), m.axesText())
	}
	spec := Whole(rank)
	for i, p := range ps {
		axis := Sub{Axis: m.axes[i].Name}
		switch p.kind {
		case sharded:
			d := p.dim
			if d < 0 {
				d += rank
			}
			if d < 0 || d >= rank {
				return Spec{}, fmt.Errorf("placements %s: axis %s splits dim %d: the tensor has %d dims", ps, axis, p.dim,
					rank)
			}
			spec.Dims[d] = append(spec.Dims[d], axis)
		case partial:
			spec.Partial = append(spec.Partial, Pending{axis, p.reduce})
		}
	}
	spec.sortPartial()
	return spec, nil
}

// Placements returns the Spec as one placement for each mesh axis. Placements cannot express that a part of
// an axis splits a dim, nor that the axes of a dim apply in another order than the mesh's: such a Spec is an
// error.
func (s Spec) Placements(m *Mesh) (Placements, error) {
	if err := s.Check(m, len(s.Dims)); err != nil {
		return nil, err
	}
	ps := make(Placements, len(m.axes))
	for d, axes := range s.Dims {
		last := -1
		for _, sub := range axes {
			i := m.axisIndex(sub.Axis)
			if sub.Size != 0 {
				return nil, fmt.Errorf("spec %s: dim %d: placements cannot say %s: want whole axes", s, d, sub)
			}
			if i < last {
				return nil, fmt.Errorf("spec %s: dim %d: placements cannot say %s: want the order of %s", s, d, axes,
					m.axesText())
			}
			ps[i], last = Shard(d), i
		}
	}
	for _, p := range s.Partial {
		if p.Size != 0 {
			return nil, fmt.Errorf("spec %s: placements cannot say that %s is partial: want whole axes", s, p.Sub)
		}
		ps[m.axisIndex(p.Axis)] = Partial(p.Reduce)
	}
	return ps, nil
}
