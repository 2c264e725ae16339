package tokenizer

import (
	"errors"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// dfa is a regular expression compiled to a table when it is read: a state and a character's class give
// the next state. It prefers earlier alternatives, as regexp does, and matches only at the beginning of a
// text.
type dfa struct {
	// classes are the classes of ranges of characters that the expression treats alike: bounds[i] begins range
	// i, whose class is classes[i]. Characters below 1<<16 are looked up in low.
	bounds  []rune
	classes []uint8
	low     []uint8

	count  int     // the number of classes
	next   []int32 // by state and class
	accept []bool  // by state; state 0 is dead
	start  int32
}

// mostStates bounds a dfa: an expression that needs more states runs in the backtracking library.
const mostStates = 4096

func newDFA(expr string) (*dfa, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, err
	}
	d := &dfa{}
	if err := d.classify(prog); err != nil {
		return nil, err
	}
	return d, d.build(prog)
}

// classify divides the characters into classes by the instructions that match them.
func (d *dfa) classify(prog *syntax.Prog) error {
	d.bounds = boundsOf(prog)
	known := map[string]uint8{}
	for _, first := range d.bounds {
		takes := make([]byte, 0, len(prog.Inst))
		for i := range prog.Inst {
			if in := &prog.Inst[i]; isRune(in.Op) && in.MatchRune(first) {
				takes = append(takes, byte(i), byte(i>>8))
			}
		}
		class, ok := known[string(takes)]
		if !ok {
			if len(known) == 256 {
				return errors.New("too many classes of characters")
			}
			class = uint8(len(known))
			known[string(takes)] = class
		}
		d.classes = append(d.classes, class)
	}
	d.count = len(known)
	d.low = make([]uint8, 1<<16)
	for r := range d.low {
		d.low[r] = d.search(rune(r))
	}
	return nil
}

func isRune(op syntax.InstOp) bool {
	switch op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}

// boundsOf returns the characters at which some instruction begins or ceases to match.
func boundsOf(prog *syntax.Prog) []rune {
	bounds := []rune{0, '\n', '\n' + 1}
	for _, in := range prog.Inst {
		if len(in.Rune) == 1 { // one character, and its other case if case is ignored
			for r := unicode.SimpleFold(in.Rune[0]); ; r = unicode.SimpleFold(r) {
				bounds = append(bounds, r, r+1)
				if r == in.Rune[0] {
					break
				}
			}
			continue
		}
		for i := 0; i+1 < len(in.Rune); i += 2 {
			bounds = append(bounds, in.Rune[i], in.Rune[i+1]+1)
		}
	}
	slices.Sort(bounds)
	return slices.Compact(bounds)
}

func (d *dfa) search(r rune) uint8 {
	i, exact := slices.BinarySearch(d.bounds, r)
	if !exact {
		i--
	}
	return d.classes[i]
}

// build makes the states: lists of instructions in order of preference, up to the first match.
func (d *dfa) build(prog *syntax.Prog) error {
	representative := make([]rune, d.count)
	for i, c := range slices.Backward(d.classes) {
		representative[c] = d.bounds[i]
	}
	b := builder{prog: prog, ids: map[string]int32{}}
	b.state(nil)
	start, err := b.follow([]uint32{uint32(prog.Start)})
	if err != nil {
		return err
	}
	d.start = b.state(start)
	for s := 0; s < len(b.states); s++ {
		if len(b.states) > mostStates {
			return errors.New("too many states")
		}
		for _, r := range representative {
			to, err := b.step(b.states[s], r)
			if err != nil {
				return err
			}
			d.next = append(d.next, b.state(to))
		}
		d.accept = append(d.accept, b.accepts(b.states[s]))
	}
	return nil
}

// builder finds and numbers the states of a dfa.
type builder struct {
	prog   *syntax.Prog
	states [][]uint32
	ids    map[string]int32
}

func (b *builder) state(list []uint32) int32 {
	key := make([]byte, 0, 2*len(list))
	for _, pc := range list {
		key = append(key, byte(pc), byte(pc>>8))
	}
	id, ok := b.ids[string(key)]
	if !ok {
		id = int32(len(b.states))
		b.ids[string(key)] = id
		b.states = append(b.states, list)
	}
	return id
}

func (b *builder) accepts(list []uint32) bool {
	return len(list) > 0 && b.prog.Inst[list[len(list)-1]].Op == syntax.InstMatch
}

// step returns the instructions that a state's instructions lead to by character r.
func (b *builder) step(list []uint32, r rune) ([]uint32, error) {
	var to []uint32
	for _, pc := range list {
		if in := &b.prog.Inst[pc]; isRune(in.Op) && in.MatchRune(r) {
			to = append(to, in.Out)
		}
	}
	return b.follow(to)
}

// follow follows instructions that consume no character. Instructions after a match are never preferred to
// it, so they are dropped.
func (b *builder) follow(from []uint32) ([]uint32, error) {
	var out []uint32
	seen := map[uint32]bool{}
	stack := slices.Clone(from)
	slices.Reverse(stack)
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch in := b.prog.Inst[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, in.Arg, in.Out)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, in.Out)
		case syntax.InstEmptyWidth:
			return nil, errors.New("it looks at what is around a match")
		case syntax.InstFail:
		case syntax.InstMatch:
			return append(out, pc), nil
		default:
			out = append(out, pc)
		}
	}
	return out, nil
}

// match returns the length of the match at the beginning of text; 0 is none.
func (d *dfa) match(text string) int {
	s, end := d.start, 0
	for i := 0; i < len(text); {
		var class uint8
		if c := text[i]; c < utf8.RuneSelf {
			class = d.low[c]
			i++
		} else {
			r, size := utf8.DecodeRuneInString(text[i:])
			i += size
			if int(r) < len(d.low) {
				class = d.low[r]
			} else {
				class = d.search(r)
			}
		}
		s = d.next[int(s)*d.count+int(class)]
		if s == 0 {
			break
		}
		if d.accept[s] {
			end = i
		}
	}
	return end
}
