package mesh

import "fmt"

// Specs returns the layout that each operand must have for the op to run under an assignment, and the
// resulting layout of each result. A result that lacks a split factor is partial over its axes, by the
// factor's reduction, unless the factor is joint. An illegal assignment is an error.
func (p *Parsed) Specs(m *Mesh, a Assignment) (in, out []Spec, err error) {
	if len(a) != len(p.Factors) {
		return nil, nil, fmt.Errorf("assignment: got %d factors, want %d", len(a), len(p.Factors))
	}
	for f, axes := range a {
		if err := m.checkAxes(axes); err != nil {
			return nil, nil, fmt.Errorf("assignment %s: factor %c: %w", p.Text(a), p.Factors[f].Name, err)
		}
	}
	if c := p.Check(m, a); len(c) > 0 {
		return nil, nil, fmt.Errorf("assignment %s: %w", p.Text(a), c[0])
	}
	for t := range p.In {
		in = append(in, p.Spec(m, t, a))
	}
	for t := len(p.In); t < p.NumTensors(); t++ {
		out = append(out, p.Spec(m, t, a))
	}
	return in, out, nil
}

// Spec returns one tensor's part of Specs, for an assignment that is known to be legal.
func (p *Parsed) Spec(m *Mesh, t int, a Assignment) Spec {
	dims := p.Tensor(t)
	s := Whole(len(dims))
	for d, factors := range dims {
		for _, name := range factors {
			s.Dims[d] = append(s.Dims[d], a[p.Index(name)]...)
		}
	}
	if t >= len(p.In) {
		s.Partial = p.pending(m, t, a)
	}
	return p.simplify(m, t, s)
}

// pending returns the axes of the factors that a result lacks. Parts of one axis with the same reduction are
// merged, because the order of a reduction is free.
func (p *Parsed) pending(m *Mesh, t int, a Assignment) []Pending {
	var s Spec
	for f, axes := range a {
		if p.Has(t, f) || p.Factors[f].Joint {
			continue
		}
		for _, x := range axes {
			if !p.gathered(m, t, x, a) {
				s.Partial = append(s.Partial, Pending{x, p.Factors[f].Reduce})
			}
		}
	}
	s.sortPartial()
	var joined []Pending
	for _, x := range s.Partial {
		if k := len(joined) - 1; k >= 0 && joined[k].Reduce == x.Reduce {
			if whole, ok := m.Join(joined[k].Sub, x.Sub); ok {
				joined[k].Sub = whole
				continue
			}
		}
		joined = append(joined, x)
	}
	return joined
}

// gathered reports whether the op itself brings together what devices along an axis have, for each part of a
// tensor: the axis splits a shared factor that the tensor has.
func (p *Parsed) gathered(m *Mesh, t int, x Sub, a Assignment) bool {
	for f, axes := range a {
		if p.Factors[f].Shared && p.Has(t, f) && m.Overlap(x, axes) {
			return true
		}
	}
	return false
}

// Ranges returns the range of each factor on a device.
func (p *Parsed) Ranges(m *Mesh, a Assignment, device int) ([]Range, error) {
	index, ok := m.Index(device)
	if !ok {
		return nil, fmt.Errorf("mesh %s: no device %d", m, device)
	}
	ranges := make([]Range, len(p.Factors))
	for f, factor := range p.Factors {
		r := Range{0, factor.Size}
		for _, d := range m.digits(a[f]) {
			c := Chunk(r.Size, d.mod, d.of(index))
			r = Range{r.Start + c.Start, c.Size}
		}
		ranges[f] = r
	}
	return ranges, nil
}

// Local returns the shapes of a device's operands and results under a legal assignment.
func (p *Parsed) Local(m *Mesh, a Assignment, device int) (in, out [][]int, err error) {
	ranges, err := p.Ranges(m, a, device)
	if err != nil {
		return nil, nil, err
	}
	for t := range p.NumTensors() {
		shape := make([]int, len(p.Tensor(t)))
		for d, factors := range p.Tensor(t) {
			shape[d] = p.localDim(t, d, factors, ranges)
		}
		if t < len(p.In) {
			in = append(in, shape)
		} else {
			out = append(out, shape)
		}
	}
	return in, out, nil
}

func (p *Parsed) localDim(t, d int, factors []byte, ranges []Range) int {
	if len(factors) == 0 && t < len(p.shapes) {
		return p.shapes[t][d]
	}
	n := 1
	for _, name := range factors {
		n *= ranges[p.Index(name)].Size
	}
	return n
}

// Mismatched returns the numbers of the tensors that do not have the layout that an assignment requires,
// which a partitioner must reshard. There is one Spec for each tensor, operands first; results may be
// omitted. Partial axes of operands are left to the caller, who knows whether the op is linear; those of
// results count.
func (p *Parsed) Mismatched(m *Mesh, a Assignment, specs []Spec) []int {
	var list []int
	for t, s := range specs {
		want := p.Spec(m, t, a)
		s = p.simplify(m, t, s)
		if t < len(p.In) {
			s.Partial = nil
		}
		if !s.dropUnitAxes(m).Equal(want.dropUnitAxes(m)) {
			list = append(list, t)
		}
	}
	return list
}
