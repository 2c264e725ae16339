package mesh

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rule is an op's sharding rule as text.
//
//	mk,kn->mn            a matrix product: k is in no result, so it is reduced by summing
//	ab->a; b:max         a reduction by maximum
//	a.c,b.->abc          broadcasting: a dot is a dim of size one that carries no factor
//	(ab)c->abc; b=4      a split dim: the compound dim is factor a (major) times factor b of size 4
//	ab*->ab*             a starred factor must be whole on every device (sorting along b)
//	ab+->a               a joint factor: the devices that share b exchange what they need inside the op (a log-sum-exp
//	                     along b), so that a result without b is complete
//	am,ek&->ak           a shared joint factor: an axis that splits it may also split a factor of other tensors, whose rows
//	                     then travel to where e is (tokens and the experts that they go to)
//	~                    nothing is known: every operand and result must be whole
type Rule string

// Unknown is the rule of an op that can only run on whole tensors.
const Unknown Rule = "~"

// Factor is one dimension of an op's iteration space.
type Factor struct {
	Name byte
	// Whole means that no axis may split the factor.
	Whole bool
	// Joint means that devices compute jointly along the factor: they exchange what they need inside the op.
	Joint bool
	// Shared means that axes of a joint factor may also split factors of tensors that do not have it.
	Shared bool
	// Size is the number of positions along the factor; 0 until it is given or inferred from shapes.
	Size int
	// Reduce is how the parts of a result that lacks the factor are combined.
	Reduce Reduce
}

// Dims holds the factors of each dim of one tensor, major first; nil for a dim without factors that no axis
// may split: one of size one that is broadcast, or any dim of an op without a known rule.
type Dims [][]byte

// Parsed is a parsed Rule.
type Parsed struct {
	// Factors in order of first appearance.
	Factors []Factor
	In, Out []Dims
	// shapes of the operands, then of the results, once bound.
	shapes [][]int
}

// Parse parses the rule and checks that it is well formed.
func (r Rule) Parse() (*Parsed, error) {
	if r == Unknown {
		return &Parsed{}, nil
	}
	body, notes, _ := strings.Cut(string(r), ";")
	lhs, rhs, ok := strings.Cut(body, "->")
	if !ok {
		return nil, fmt.Errorf("rule %q: no arrow: want operands->results", r)
	}
	p := &Parsed{}
	var err error
	if p.In, err = p.parseSide(strings.TrimSpace(lhs)); err != nil {
		return nil, fmt.Errorf("rule %q: %w", r, err)
	}
	if p.Out, err = p.parseSide(strings.TrimSpace(rhs)); err != nil {
		return nil, fmt.Errorf("rule %q: %w", r, err)
	}
	if err := p.parseNotes(notes); err != nil {
		return nil, fmt.Errorf("rule %q: %w", r, err)
	}
	return p, nil
}

// parseSide parses comma-separated tensors; an empty word is a scalar. An empty side is one scalar, which
// Bind drops if the op has no tensors there.
func (p *Parsed) parseSide(s string) ([]Dims, error) {
	if s == "" {
		return []Dims{nil}, nil
	}
	var side []Dims
	for _, word := range strings.Split(s, ",") {
		dims, err := p.parseDims(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		side = append(side, dims)
	}
	return side, nil
}

func (p *Parsed) parseDims(word string) (Dims, error) {
	dims := Dims{}
	open := false
	for i := 0; i < len(word); i++ {
		switch c := word[i]; {
		case c == '.' && !open:
			dims = append(dims, nil)
		case c == '(' && !open:
			dims, open = append(dims, []byte{}), true
		case c == ')' && open:
			open = false
		case c == '*' && i > 0 && isFactor(word[i-1]):
			p.factor(word[i-1]).Whole = true
		case c == '+' && i > 0 && isFactor(word[i-1]):
			p.factor(word[i-1]).Joint = true
		case c == '&' && i > 0 && isFactor(word[i-1]):
			p.factor(word[i-1]).Joint, p.factor(word[i-1]).Shared = true, true
		case isFactor(c):
			p.factor(c)
			if open {
				dims[len(dims)-1] = append(dims[len(dims)-1], c)
			} else {
				dims = append(dims, []byte{c})
			}
		default:
			return nil, fmt.Errorf("unexpected %q in %q", c, word)
		}
	}
	if open {
		return nil, fmt.Errorf("unclosed parenthesis in %q", word)
	}
	return dims, nil
}

func isFactor(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// factor returns the factor called name, adding it if it is new.
func (p *Parsed) factor(name byte) *Factor {
	for i := range p.Factors {
		if p.Factors[i].Name == name {
			return &p.Factors[i]
		}
	}
	p.Factors = append(p.Factors, Factor{Name: name})
	return &p.Factors[len(p.Factors)-1]
}

// parseNotes parses what follows the semicolon: b=4 gives a size, b:max a reduction.
func (p *Parsed) parseNotes(notes string) error {
	for _, note := range strings.Fields(notes) {
		if len(note) < 3 || !p.has(note[0]) {
			return fmt.Errorf("note %q names no factor of the rule", note)
		}
		f, arg := p.factor(note[0]), note[2:]
		switch note[1] {
		case '=':
			n, err := strconv.Atoi(arg)
			if err != nil || n < 0 {
				return fmt.Errorf("note %q: want a size", note)
			}
			f.Size = n
		case ':':
			r, err := ParseReduce(arg)
			if err != nil {
				return fmt.Errorf("note %q: %w", note, err)
			}
			f.Reduce = r
		default:
			return fmt.Errorf("note %q: want factor=size or factor:reduction", note)
		}
	}
	return nil
}

func (p *Parsed) has(name byte) bool {
	return slices.ContainsFunc(p.Factors, func(f Factor) bool { return f.Name == name })
}
