package shard

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Kind is the cost of splitting a factor.
type Kind uint8

// Kinds of factors.
const (
	// Pass: none.
	Pass Kind = iota
	// Reduction: results are partial.
	Reduction
	// Move: neighbours exchange elements.
	Move
	// Whole: the op itself needs all of it, so that operands are gathered and results split again.
	Whole
)

// Factor is a factor for inference: shardings propagate along it from tensor to tensor, even if the op itself
// cannot run with it split.
type Factor struct {
	Name byte
	Size int
	Kind Kind
	// fixed means that the size is not that of a dim.
	fixed bool
}

// Spread is the rule by which shardings propagate through an op: for each tensor and dim the factors, by
// number.
type Spread struct {
	Factors []Factor
	// Dims is for operands, then for results.
	Dims     [][][]int
	Operands int

	// elementwise: all tensors have the same dims, or dims that are repeated.
	elementwise bool
	// broadcast: results have dims that no operand has.
	broadcast bool
	// pass is the direction in which an op that only passes its dims on does so; Nowhere for other ops.
	pass Direction
}

// Direction is the direction in which shardings may propagate through an op.
type Direction uint8

// The directions.
const (
	Nowhere    Direction = 0
	ToResults  Direction = 1
	ToOperands Direction = 2
	BothWays   Direction = ToResults | ToOperands
)

// Reach limits how far shardings propagate.
type Reach uint8

// The reaches.
const (
	// Wide: also along dims that the op itself cannot split (op.Follower), and by parts of axes.
	Wide Reach = iota
	// Narrow: only along dims that the op can run split, and by whole axes.
	Narrow
)

// SpreadOf returns how shardings propagate through an op on these global types.
func SpreadOf(o op.Op, in, out []ir.Type, r Reach) (*Spread, error) {
	p, err := Bind(o, in, out)
	if err != nil {
		return nil, err
	}
	s := spreadRule(p)
	if how := op.CooperativeRuleOf(o, in); how.Rule != "" && r == Wide {
		if s, err = cooperativeSpread(how.Rule, p, in, out); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name(), err)
		}
	}
	if f, ok := o.(op.Follower); ok && r == Wide {
		rule, moves := f.Follow(in, out)
		if s, err = followRule(rule, moves, slices.Concat(shapes(in), shapes(out)), len(in)); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name(), err)
		}
	}
	s.classify(slices.Concat(in, out))
	return s, nil
}

// spreadRule converts a bound rule.
func spreadRule(p *mesh.Parsed) *Spread {
	s := &Spread{Operands: len(p.In)}
	for f, x := range p.Factors {
		k := Pass
		switch {
		case x.Whole:
			k = Whole
		case p.Reduced(f):
			k = Reduction
		}
		s.Factors = append(s.Factors, Factor{Name: x.Name, Size: x.Size, Kind: k})
	}
	for t := range p.NumTensors() {
		s.Dims = append(s.Dims, factorNumbers(p, p.Tensor(t)))
	}
	return s
}

// cooperativeSpread returns the rule of an op that devices can compute jointly: factors that the op alone can
// split cost nothing here either, others need communication.
func cooperativeSpread(rule mesh.Rule, alone *mesh.Parsed, in, out []ir.Type) (*Spread, error) {
	p, err := rule.Bind(shapes(in), shapes(out))
	if err != nil {
		return nil, err
	}
	s := spreadRule(p)
	for f, x := range p.Factors {
		i := alone.Index(x.Name)
		if !x.Joint || i >= 0 && !alone.Factors[i].Whole {
			continue
		}
		s.Factors[f].Kind = Whole
		if s.shared(f) {
			s.Factors[f].Kind = Move
		}
	}
	return s, nil
}

func factorNumbers(p *mesh.Parsed, dims mesh.Dims) [][]int {
	out := make([][]int, len(dims))
	for d, names := range dims {
		for _, name := range names {
			out[d] = append(out[d], p.Index(name))
		}
	}
	return out
}

// followRule parses a rule in which one factor may have dims of different sizes: it has the size of the
// first, unless a note gives one.
func followRule(rule mesh.Rule, moves string, shapes [][]int, operands int) (*Spread, error) {
	p, err := rule.Parse()
	if err != nil {
		return nil, err
	}
	if operands == 0 {
		p.In = nil
	}
	if len(p.In) != operands || p.NumTensors() != len(shapes) {
		return nil, fmt.Errorf("rule %q has %d operands and %d results: want %d and %d", rule, len(p.In),
			len(p.Out), operands, len(shapes)-operands)
	}
	fixed := make([]bool, len(p.Factors))
	for f := range fixed {
		fixed[f] = p.Factors[f].Size != 0
	}
	for t := range p.NumTensors() {
		dims := p.Tensor(t)
		if len(dims) != len(shapes[t]) {
			return nil, fmt.Errorf("rule %q: %s has %d dims: want %d", rule, p.Name(t), len(dims), len(shapes[t]))
		}
		for d, names := range dims {
			if len(names) == 1 && p.Factors[p.Index(names[0])].Size == 0 {
				p.Factors[p.Index(names[0])].Size = shapes[t][d]
			}
		}
	}
	s := spreadRule(p)
	for i := range s.Factors {
		s.Factors[i].fixed = fixed[i]
		if slices.Contains([]byte(moves), s.Factors[i].Name) {
			s.Factors[i].Kind = Move
		}
	}
	return s, nil
}

// has reports whether a tensor has a factor.
func (s *Spread) has(t, f int) bool {
	for _, factors := range s.Dims[t] {
		if slices.Contains(factors, f) {
			return true
		}
	}
	return false
}

// shared reports whether operands and results have the factor.
func (s *Spread) shared(f int) bool {
	in, out := false, false
	for t := range s.Dims {
		if s.has(t, f) {
			in, out = in || t < s.Operands, out || t >= s.Operands
		}
	}
	return in && out
}

// classify derives what the rounds of inference need from the rule alone.
func (s *Spread) classify(types []ir.Type) {
	s.elementwise = s.sameDims(types)
	for f, x := range s.Factors {
		if x.Kind == Pass && x.Size != 1 && !s.shared(f) && s.Operands > 0 {
			s.broadcast = true
		}
	}
	s.pass = s.passes(types)
}

// sameDims reports whether the op is elementwise, with broadcasting.
func (s *Spread) sameDims(types []ir.Type) bool {
	if len(s.Dims) == s.Operands {
		return false
	}
	last := s.Dims[len(s.Dims)-1]
	for t, dims := range s.Dims {
		if len(dims) > len(last) {
			return false
		}
		for d, factors := range dims {
			want := last[len(last)-len(dims)+d]
			if types[t].Shape[d] != 1 && !slices.Equal(factors, want) {
				return false
			}
		}
	}
	for _, x := range s.Factors {
		if x.Kind != Pass {
			return false
		}
	}
	return true
}

// passes returns the direction in which an op passes its largest operand's dims on. If dims are cut or padded
// it is towards the smaller tensor.
func (s *Spread) passes(types []ir.Type) Direction {
	if s.Operands == 0 || len(s.Dims) == s.Operands {
		return Nowhere
	}
	largest, cut := s.largest(types), false
	for f, x := range s.Factors {
		switch {
		case x.Size == 1:
		case x.Kind == Reduction || x.Kind == Move || x.Kind == Pass && s.has(largest, f) != s.has(s.Operands, f):
			return Nowhere
		case x.Kind == Whole && !s.shared(f):
			cut = true
		}
	}
	from, to := types[largest].Shape.Len(), types[s.Operands].Shape.Len()
	switch {
	case !cut || from == to && s.Operands == 1:
		return BothWays
	case to < from:
		return ToResults
	}
	return ToOperands
}

// largest returns the operand with the most elements, the first of equals.
func (s *Spread) largest(types []ir.Type) int {
	best := 0
	for t := range s.Operands {
		if types[t].Shape.Len() > types[best].Shape.Len() {
			best = t
		}
	}
	return best
}
