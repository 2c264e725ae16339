package op

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// reshapeRule matches runs of dims that hold the same elements. Within a run, it splits off factors from the
// major end as long as one side's dim divides the other's; what cannot be matched becomes one factor on each
// side, which no axis may split.
func reshapeRule(in, out array.Shape) mesh.Rule {
	if in.Len() == 0 {
		return emptyRule(in, out)
	}
	m := &reshapeMatch{in: newSide(in), out: newSide(out)}
	for m.in.more() && m.out.more() {
		m.step()
	}
	m.in.drain()
	m.out.drain()
	m.ones()
	return mesh.Rule(m.in.text() + "->" + m.out.text() + m.notes())
}

// emptyRule returns the rule for tensors without elements: dims match if only dims of size one were added or
// dropped.
func emptyRule(in, out array.Shape) mesh.Rule {
	word := func(s array.Shape) (text string, sizes array.Shape) {
		for _, n := range s {
			if n == 1 {
				text += "."
				continue
			}
			text += factors(len(sizes), 1)
			sizes = append(sizes, n)
		}
		return text, sizes
	}
	from, a := word(in)
	to, b := word(out)
	if a.Equal(b) {
		return mesh.Rule(from + "->" + to)
	}
	return mesh.Rule(wholeWord(in, 0) + "->" + wholeWord(out, len(in)))
}

func wholeWord(s array.Shape, first int) string {
	var b strings.Builder
	for i := range s {
		b.WriteByte(letters[first+i])
		b.WriteByte('*')
	}
	return b.String()
}

// side is one of the two shapes, consumed from its major end.
type side struct {
	shape array.Shape
	dim   int
	left  int // what remains of the current dim
	words []string
}

func newSide(s array.Shape) *side {
	x := &side{shape: s, words: make([]string, len(s))}
	x.load()
	return x
}

// load starts the current dim, skipping those of size one.
func (s *side) load() {
	for s.dim < len(s.shape) && s.shape[s.dim] == 1 {
		s.dim++
	}
	if s.dim < len(s.shape) {
		s.left = s.shape[s.dim]
	}
}

func (s *side) more() bool { return s.dim < len(s.shape) }

// take consumes a factor of size n of the current dim.
func (s *side) take(name string, n int) {
	s.words[s.dim] += name
	s.left /= n
	if s.left == 1 {
		s.dim++
		s.load()
	}
}

func (s *side) drain() {
	for s.more() {
		s.dim++
		s.load()
	}
}

func (s *side) text() string {
	var b strings.Builder
	for _, w := range s.words {
		switch {
		case w == "":
			b.WriteByte('.')
		case len(strings.TrimSuffix(w, "*")) == 1:
			b.WriteString(w)
		default:
			b.WriteString("(" + w + ")")
		}
	}
	return b.String()
}

type reshapeMatch struct {
	in, out *side
	used    int
	sizes   []int
}

func (m *reshapeMatch) name(size int) string {
	m.used++
	m.sizes = append(m.sizes, size)
	return string(letters[m.used-1])
}

// ones matches the dims of size one at the same position of both shapes: splitting one leaves devices without
// elements, but moves nothing.
func (m *reshapeMatch) ones() {
	n, k := 1, 1 // elements before dim i and dim j
	for i, j := 0, 0; i < len(m.in.shape) && j < len(m.out.shape); {
		a, b := m.in.shape[i], m.out.shape[j]
		switch {
		case n == k && a == 1 && b == 1:
			f := m.name(1)
			m.in.words[i], m.out.words[j] = f, f
			i, j = i+1, j+1
		case n < k || n == k && (a == 1 || b != 1):
			n, i = n*a, i+1
		default:
			k, j = k*b, j+1
		}
	}
}

// step matches the next factor, or gives up on the dims up to where both sides have consumed the same number
// of elements.
func (m *reshapeMatch) step() {
	a, b := m.in.left, m.out.left
	small, large := min(a, b), max(a, b)
	if large%small == 0 {
		f := m.name(small)
		m.in.take(f, small)
		m.out.take(f, small)
		return
	}
	if g := gcd(a, b); g > 1 && m.wholeRest(g) {
		return
	}
	m.giveUp()
}

// wholeRest shares the common major part of two dims that do not divide each other; the rest must not be
// split.
func (m *reshapeMatch) wholeRest(g int) bool {
	f := m.name(g)
	m.in.words[m.in.dim] += f
	m.in.left /= g
	m.out.words[m.out.dim] += f
	m.out.left /= g
	m.giveUp()
	return true
}

// giveUp consumes dims from both sides until both have consumed the same number of elements, each dim as a
// factor of its own.
func (m *reshapeMatch) giveUp() {
	na, nb := 1, 1
	for first := true; first || na != nb; first = false {
		if na <= nb && m.in.more() {
			na *= m.eatWhole(m.in)
		} else {
			nb *= m.eatWhole(m.out)
		}
	}
}

func (m *reshapeMatch) eatWhole(s *side) int {
	n := s.left
	s.take(m.name(n)+"*", n)
	return n
}

// notes writes the sizes, which compound dims need.
func (m *reshapeMatch) notes() string {
	var b strings.Builder
	for i, n := range m.sizes {
		fmt.Fprintf(&b, " %c=%d", letters[i], n)
	}
	if b.Len() == 0 {
		return ""
	}
	return ";" + b.String()
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
