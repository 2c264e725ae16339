package mesh

import (
	"slices"
	"strconv"
	"strings"
)

// NumTensors returns the number of operands and results. Tensors are numbered: operands first, then results.
func (p *Parsed) NumTensors() int { return len(p.In) + len(p.Out) }

// Tensor returns the dims of a tensor by its number.
func (p *Parsed) Tensor(t int) Dims {
	if t < len(p.In) {
		return p.In[t]
	}
	return p.Out[t-len(p.In)]
}

// Name describes a tensor: operand 0, result 1; empty for no tensor.
func (p *Parsed) Name(t int) string {
	switch {
	case t < 0:
		return ""
	case t < len(p.In):
		return "operand " + strconv.Itoa(t)
	}
	return "result " + strconv.Itoa(t-len(p.In))
}

// Index returns the number of the factor with a name, -1 if there is none.
func (p *Parsed) Index(name byte) int {
	return slices.IndexFunc(p.Factors, func(f Factor) bool { return f.Name == name })
}

// Has reports whether a factor is in a tensor.
func (p *Parsed) Has(t, factor int) bool { return p.count(t, factor) > 0 }

// count returns how often a factor occurs in a tensor: twice if the op takes a diagonal.
func (p *Parsed) count(t, factor int) int {
	n := 0
	for _, factors := range p.Tensor(t) {
		for _, name := range factors {
			if name == p.Factors[factor].Name {
				n++
			}
		}
	}
	return n
}

// Reduced reports whether no result has the factor, so that results are partial if it is split. Along a joint
// factor they are complete.
func (p *Parsed) Reduced(factor int) bool {
	if p.Factors[factor].Joint {
		return false
	}
	for t := len(p.In); t < p.NumTensors(); t++ {
		if p.Has(t, factor) {
			return false
		}
	}
	return true
}

// PassThrough reports whether every tensor has the factor: splitting it never needs communication.
func (p *Parsed) PassThrough(factor int) bool {
	for t := range p.NumTensors() {
		if !p.Has(t, factor) {
			return false
		}
	}
	return true
}

// Projection is how one tensor's Spec splits the factors of a rule.
type Projection struct {
	// Axes holds, for each factor of the rule, the axes that split it in this tensor.
	Axes []Axes
	// Rest holds, for each factor, the axes that follow on its dim and divide neither it nor the factors after
	// it: they split the dim, but no factor. No further axis can split the factor or those below it in the dim.
	Rest []Axes
	// Bare holds, for each dim of the tensor, the axes that split it although it has no factors.
	Bare []Axes
	// Partial holds the tensor's own partial axes.
	Partial []Pending
}

// Project expresses a tensor's Spec as axes of the rule's factors. A compound dim gives its axes to the major
// factor as long as they divide it, splitting an axis if only a part does, and then to the next; the minor
// factor takes all that remain, evenly or not.
func (p *Parsed) Project(m *Mesh, t int, s Spec) (Projection, error) {
	dims := p.Tensor(t)
	if err := s.Check(m, len(dims)); err != nil {
		return Projection{}, err
	}
	pr := Projection{
		Axes: make([]Axes, len(p.Factors)), Rest: make([]Axes, len(p.Factors)),
		Bare: make([]Axes, len(dims)), Partial: slices.Clone(s.Partial),
	}
	for d, factors := range dims {
		rest := slices.Clone(s.Dims[d])
		for i, name := range factors {
			f := p.Index(name)
			if i == len(factors)-1 {
				pr.Axes[f], rest = append(pr.Axes[f], rest...), nil
				break
			}
			taken, left, stuck := m.fill(p.Factors[f].Size, rest)
			pr.Axes[f], rest = append(pr.Axes[f], taken...), left
			if stuck {
				pr.Rest[f], rest = rest, nil
				break
			}
		}
		pr.Bare[d] = rest
	}
	return pr, nil
}

// Unproject returns the Spec of a projection of a tensor, which inference may have extended.
func (p *Parsed) Unproject(m *Mesh, t int, pr Projection) Spec {
	dims := p.Tensor(t)
	s := Whole(len(dims)).With(pr.Partial...)
	for d, factors := range dims {
		for _, name := range factors {
			f := p.Index(name)
			s.Dims[d] = slices.Concat(s.Dims[d], pr.Axes[f], pr.Rest[f])
		}
		s.Dims[d] = append(s.Dims[d], pr.Bare[d]...)
	}
	return p.simplify(m, t, s)
}

// simplify merges the parts of axes in a Spec of a tensor whose shape is bound.
func (p *Parsed) simplify(m *Mesh, t int, s Spec) Spec {
	if t < len(p.shapes) && len(p.shapes[t]) == len(s.Dims) {
		return s.Simplify(m, p.shapes[t])
	}
	return s
}

// fill takes the axes that divide n from the list, splitting one if a part of it does. It is stuck if n is
// not used up and the next axis has no common divisor with the remainder.
func (m *Mesh) fill(n int, list Axes) (taken, rest Axes, stuck bool) {
	for len(list) > 0 {
		k := m.Extent(list[0])
		g := gcd(n, k)
		switch {
		case g == k:
			taken, list = append(taken, list[0]), list[1:]
		case n == 1:
			return taken, list, false
		case g == 1:
			return taken, list, true
		default:
			var major Sub
			major, list[0], _ = m.Cut(list[0], g)
			taken = append(taken, major)
		}
		n /= g
	}
	return taken, nil, false
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Assignment holds the axes that split each factor of a rule: one way to run an op on many devices. Every
// factor is split the same way in all tensors that have it, and no axis splits two factors.
type Assignment []Axes

// Equal reports whether both split every factor the same way.
func (a Assignment) Equal(b Assignment) bool { return slices.EqualFunc(a, b, Axes.Equal) }

// Clone returns a deep copy.
func (a Assignment) Clone() Assignment {
	c := make(Assignment, len(a))
	for f := range a {
		c[f] = slices.Clone(a[f])
	}
	return c
}

// Text returns the assignment with the names of the split factors: m=dp k=tp.
func (p *Parsed) Text(a Assignment) string {
	var words []string
	for f, axes := range a {
		if len(axes) > 0 {
			words = append(words, string(p.Factors[f].Name)+"="+axes.String())
		}
	}
	return strings.Join(words, " ")
}
