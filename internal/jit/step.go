package jit

import (
	"math"

	"github.com/galley-ml/galley/internal/lane"
)

// instKind is the kind of a step's instruction, besides those of lanes.
type instKind uint8

const (
	laneInst  instKind = iota
	streamIn           // reads a stream
	streamOut          // writes one
	streamAdd          // adds to one
	keptIn             // reads a stored row
	keptOut            // stores one
	foldIn             // folds a value into its accumulators
	rowIn              // reads a stream once a row and broadcasts it
	slotOut            // stores a row value in its slot
	rowOut             // writes a row value to its stream
)

// inst is an instruction of a step over virtual registers.
type inst struct {
	lane.Instr
	kind   instKind
	index  int // stream, value or fold
	vector int // index among interleaved vectors
}

// args returns the operands.
func (i *inst) args() []lane.Arg {
	if i.kind == laneInst {
		return i.Args()
	}
	if i.kind == streamIn || i.kind == keptIn || i.kind == rowIn {
		return nil
	}
	return i.Arg[:1]
}

const foldMin = lane.FoldMin

func extreme(how lane.Fold) float64 {
	if how == lane.FoldMax {
		return math.Inf(-1)
	}
	return math.Inf(1)
}

// stepBuilder builds the list of a step: what a pass must compute for a vector of columns.
type stepBuilder struct {
	c     *compiler
	b     *lane.Builder
	phase int
	row   bool // row values are computed instead of read
	done  map[int]lane.Arg
	slots map[int]int // virtual registers that are slots of values
	list  []inst
}

func (c *compiler) newStep(phase int) *stepBuilder {
	return &stepBuilder{c: c, b: c.builder(0), phase: phase, done: map[int]lane.Arg{},
		slots: map[int]int{}}
}

// flush moves the instructions of formulas to the list.
func (s *stepBuilder) flush() {
	for _, i := range s.b.Code {
		s.list = append(s.list, inst{Instr: i})
	}
	s.b.Code = s.b.Code[:0]
}

// in adds an instruction that defines a register.
func (s *stepBuilder) in(kind instKind, index int) lane.Arg {
	s.flush()
	r := s.b.New()
	s.list = append(s.list, inst{Instr: lane.Instr{Dst: r.Reg}, kind: kind, index: index})
	return r
}

// out adds an instruction that uses a value.
func (s *stepBuilder) out(kind instKind, index int, a lane.Arg) {
	s.flush()
	s.list = append(s.list, inst{Instr: lane.Instr{Dst: -1, Arg: [4]lane.Arg{a}}, kind: kind, index: index})
}

// value returns a value of the program as an operand.
func (s *stepBuilder) value(i int) lane.Arg {
	if a, ok := s.done[i]; ok {
		return a
	}
	a := s.make(i)
	s.done[i] = a
	return a
}

func (s *stepBuilder) make(i int) lane.Arg {
	v := &s.c.p.Values[i]
	switch {
	case v.Kind == Copy:
		return s.value(v.In[0])
	case v.Kind == Number:
		return lane.Arg{Reg: -1, Bits: s.c.p.numberBits(v)}
	case v.Level == Row && (!s.row || v.Kind == Fold || v.Phase < s.phase):
		r := s.b.New()
		s.slots[r.Reg] = i
		return r
	case v.Kind == Stream && v.Level == Row:
		return s.in(rowIn, v.Stream)
	case v.Kind == Stream:
		return s.in(streamIn, v.Stream)
	case v.Phase < s.phase && s.c.kept[i].scale != 0:
		return s.in(keptIn, i)
	case v.Phase < s.phase && s.c.storeOf(i) >= 0 && !v.Truth && v.Level == Elem:
		return s.in(streamIn, s.c.storeOf(i))
	}
	in := make([]lane.Arg, len(v.In))
	for k, x := range v.In {
		in[k] = s.value(x)
	}
	a := v.Lane(s.b, in)
	s.flush()
	return a
}

// numberBits returns the bits of a lane with a constant.
func (p *Program) numberBits(v *Value) uint64 {
	switch {
	case !v.Truth:
		return p.float(v.Number)
	case v.Number == 0:
		return 0
	case p.Double:
		return math.MaxUint64
	}
	return math.MaxUint32
}

// plan builds the list of a pass: its folds and, with stores, what the phase writes and stores for later.
func (p *pass) plan(phase int, stores bool) {
	s := p.c.newStep(phase)
	for k, f := range p.folds {
		s.out(foldIn, k, s.value(p.c.p.Values[f.value].In[0]))
	}
	if stores {
		for i, v := range p.c.p.Values {
			if v.Phase == phase && v.Level == Elem && p.c.kept[i].scale != 0 {
				s.out(keptOut, i, s.value(i))
			}
		}
		// Operands are read before results are written: they may be the same memory.
		var values []lane.Arg
		var outs []Store
		for _, st := range p.c.p.Stores {
			if v := p.c.p.Values[st.Value]; v.Level == Elem && v.Phase == phase {
				values, outs = append(values, s.value(st.Value)), append(outs, st)
			}
		}
		for k, st := range outs {
			kind := streamOut
			if st.Add {
				kind = streamAdd
			}
			s.out(kind, st.Stream, values[k])
		}
	}
	s.flush()
	p.steps = s.list
	p.slots = s.slots
}

// rowValues computes the row values that become available in a phase.
func (c *compiler) rowValues(phase int) {
	s := c.newStep(phase)
	s.row = true
	for i, v := range c.p.Values {
		if v.Level == Row && v.Phase == phase && (v.Kind == Map || v.Kind == Stream) {
			s.out(slotOut, i, s.value(i))
		}
	}
	s.flush()
	p := &pass{c: c, steps: s.list, slots: s.slots, reg: map[int]int{}, limit: c.rowLimit}
	p.step(0, 0, false)
}

// rowStores writes the results that have one value a row.
func (c *compiler) rowStores() {
	s := c.newStep(c.phases)
	for _, st := range c.p.Stores {
		if c.p.Values[st.Value].Level == Row {
			s.out(rowOut, st.Stream, s.value(st.Value))
		}
	}
	p := &pass{c: c, steps: s.list, slots: s.slots, reg: map[int]int{}, limit: c.rowLimit}
	p.step(0, 0, false)
}

func (c *compiler) registers() int {
	if c.wide {
		return 32
	}
	return 16
}
