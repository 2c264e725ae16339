package step

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/mesh"
)

// tape reads the tape of one device.
func (r *reader) tape(s *scanner) error {
	at := s.column()
	t := &tape{device: s.number(most), whole: r.p.Whole}
	s.want("rank")
	t.rank = s.number(len(r.p.Meshes))
	if s.err == nil && !r.p.Meshes[t.rank].Contains(t.device) {
		s.errorf(at, "device %d is not of rank %d, mesh %v", t.device, t.rank, r.p.Meshes[t.rank])
	}
	if t.device < len(r.p.tapes) && r.p.tapes[t.device] != nil {
		s.errorf(at, "a second tape of device %d", t.device)
	}
	if err := s.end(); err != nil {
		return err
	}
	x := &tapeReader{r: r, t: t}
	for r.indented() {
		if err := x.line(r.next()); err != nil {
			return err
		}
	}
	r.p.add(t)
	return x.finish()
}

// tapeReader reads one tape. The offsets of buffers and the ends of sends follow from the rest; the stated
// ones are compared with them.
type tapeReader struct {
	r *reader
	t *tape
	// offsets and untils are the stated numbers with their places in the text.
	offsets, untils []statedNumber
}

// statedNumber is a number that the text states for a buffer or an instruction, and its place.
type statedNumber struct{ of, number, line, column int }

func (x *tapeReader) line(s *scanner) error {
	s.blanks()
	if s.more() && s.text[s.i] == '%' {
		x.buffer(s)
	} else {
		x.instruction(s)
	}
	return s.end()
}

func (x *tapeReader) buffer(s *scanner) {
	at := s.column()
	if word := s.word(); word != fmt.Sprintf("%%%d", len(x.t.buffers)) {
		s.errorf(at, "buffer %s: want %%%d next", word, len(x.t.buffers))
	}
	if len(x.t.code) > 0 {
		s.errorf(at, "a buffer after instructions: want all buffers first")
	}
	s.want("=")
	at = s.column()
	b := buffer{key: x.key(s), first: -1}
	s.want(":")
	b.t = s.typ()
	b.offloaded = s.is("away")
	if !slices.Contains([]bufferKind{slotBuffer, weightBuffer, valueBuffer}, b.key.kind) && b.offloaded {
		s.errorf(at, "only weights, slots and values can be offloaded (away)")
	}
	if _, ok := x.t.find(b.key); ok {
		s.errorf(at, "a second buffer for the same tensor")
	}
	if one := []bufferKind{scalarBuffer, seedBuffer, reportBuffer}; slices.Contains(one, b.key.kind) &&
		len(b.t.Shape) > 0 {
		s.errorf(at, "%s is %v: want a scalar", keyWords[b.key.kind], b.t)
	}
	if !b.persistent() {
		s.want("at")
		column := s.column()
		x.offsets = append(x.offsets, statedNumber{len(x.t.buffers), s.number(1 << 50), s.line, column})
	}
	x.t.buffers = append(x.t.buffers, b)
}

// key reads which tensor a buffer holds.
func (x *tapeReader) key(s *scanner) (k bufferKey) {
	p := x.r.p
	at := s.column()
	word := s.word()
	k.kind = inputBuffer + 1
	for kind, w := range keyWords {
		if w == word {
			k.kind = kind
		}
	}
	switch k.kind {
	case valueBuffer:
		k.stage, k.micro, k.value = s.number(p.Schedule.Stages), s.number(p.Schedule.Micros), s.number(most)
	case scratch:
		k.micro, k.value = s.number(most), s.number(most)
	case resultBuffer, inputBuffer:
		k.micro, k.value = s.number(p.Schedule.Micros), s.number(most)
	case weightBuffer:
		k.stage = x.weight(s)
	case slotBuffer:
		k.value = s.number(most)
		k.stage = x.weight(s)
	case sumBuffer:
		k.stage = s.number(p.Schedule.Stages)
		k.value = x.weight(s)
	case scalarBuffer:
		k.value = s.number(max(1, len(p.Scalars)))
	case seedBuffer:
	case reportBuffer:
		k.value = s.number(2)
	default:
		s.errorf(at, "got %q, want what a buffer holds: a value, weight, slot, sum …", word)
	}
	return k
}

// weight reads the name of a weight.
func (x *tapeReader) weight(s *scanner) int {
	at := s.column()
	name := s.quoted()
	i := slices.IndexFunc(x.r.p.Weights, func(w State) bool { return w.Name == name })
	if i < 0 {
		s.errorf(at, "no weight is called %q", name)
		return 0
	}
	return i
}

// instruction reads one instruction.
func (x *tapeReader) instruction(s *scanner) {
	in := instruction{action: pipeline.Action{Stage: -1}, arena: -1}
	at := s.column()
	if word := s.word(); !x.isWhen(word, &in) {
		var err error
		in.action, err = pipeline.ParseAction(word)
		s.fail(at, err)
		if p := x.r.p.Schedule; in.action.Stage >= p.Stages || in.action.Micro >= p.Micros {
			s.errorf(at, "%s: the schedule has %d stages and %d micro-batches", word, p.Stages, p.Micros)
		}
	}
	at = s.column()
	switch word := s.word(); {
	case word == "run" && (in.action.Stage < 0 || in.action.Kind.Computes()):
		x.run(s, &in)
	case word == "send" && in.action.Stage >= 0 && in.action.Kind.Sends():
		in.kind, in.args = send, []int{s.buffer(len(x.t.buffers))}
		x.message(s, &in, "to")
		s.want("until")
		column := s.column()
		x.untils = append(x.untils, statedNumber{len(x.t.code), s.number(most), s.line, column})
		x.carried(s, &in, in.args[0])
	case word == "receive" && in.action.Stage >= 0 && in.action.Kind.Receives():
		in.kind, in.out = receive, []int{s.buffer(len(x.t.buffers))}
		x.message(s, &in, "from")
		x.carried(s, &in, in.out[0])
	default:
		s.errorf(at, "%s %s: want run for a computation, send or receive for a message", in.name(), word)
	}
	if s.err == nil {
		x.use(&in)
		x.t.code = append(x.t.code, in)
	}
}

// isWhen reports whether a word names a call that belongs to no micro-batch, such as the update, and sets the
// instruction's stage to it.
func (x *tapeReader) isWhen(word string, in *instruction) bool {
	for stage, w := range whenWords {
		if w == word && (x.t.whole || stage == int(AtUpdate)) {
			in.action.Stage = stage
			return true
		}
	}
	return false
}

// message reads the peer and the tag of a message.
func (x *tapeReader) message(s *scanner, in *instruction, word string) {
	s.want(word)
	at := s.column()
	in.peer = s.number(most)
	if !slices.ContainsFunc(x.r.p.Meshes, func(m *mesh.Mesh) bool { return m.Contains(in.peer) }) {
		s.errorf(at, "no device %d", in.peer)
	}
	s.want("tag")
	in.tag = s.number(1 << 50)
}

// carried reads the type of a message, which is that of its buffer.
func (x *tapeReader) carried(s *scanner, in *instruction, buffer int) {
	s.want(":")
	at := s.column()
	if t := s.typ(); s.err == nil && !t.Equal(x.t.buffers[buffer].t) {
		s.errorf(at, "got %v, want that of buffer %%%d, %v", t, buffer, x.t.buffers[buffer].t)
	}
	if s.is("of") {
		x.piece(s, in, buffer)
	}
}

// piece reads the buffer of which a message carries a part, and the part's position.
func (x *tapeReader) piece(s *scanner, in *instruction, buffer int) {
	p := &piece{buffer: s.buffer(len(x.t.buffers))}
	s.want("at")
	at := s.column()
	p.start = s.ints()
	if s.err != nil {
		return
	}
	whole, part := x.t.buffers[p.buffer].t, x.t.buffers[buffer].t
	fits := whole.DType == part.DType && len(whole.Shape) == len(part.Shape) && len(p.start) == len(part.Shape)
	for d := range part.Shape {
		fits = fits && p.start[d]+part.Shape[d] <= whole.Shape[d]
	}
	if !fits {
		s.errorf(at, "%v at %s is no part of buffer %%%d, %v", part, ints(p.start), p.buffer, whole)
	}
	in.piece = p
}

// use updates the lifetimes of the buffers that an instruction uses.
func (x *tapeReader) use(in *instruction) {
	list := slices.Concat(in.args, in.out)
	if in.arena >= 0 {
		list = append(list, in.arena)
	}
	if in.piece != nil {
		list = append(list, in.piece.buffer)
	}
	for _, c := range in.copies {
		list = append(list, c[0], c[1])
	}
	for _, l := range in.loads {
		list = append(list, l.buffer)
	}
	now := len(x.t.code)
	for _, i := range list {
		b := &x.t.buffers[i]
		if b.last = now; b.first < 0 {
			b.first = now
		}
	}
}

// finish packs the buffers and compares the result with the stated numbers.
func (x *tapeReader) finish() error {
	t := x.t
	for i := range t.buffers {
		if b := &t.buffers[i]; b.first < 0 {
			b.first = 0
		}
	}
	t.pack()
	for _, s := range x.offsets {
		if got := t.buffers[s.of].offset; got != s.number {
			return &SyntaxError{s.line, s.column, fmt.Errorf("buffer %%%d is at %d: got %d", s.of, got, s.number)}
		}
	}
	for _, s := range x.untils {
		if got := t.code[s.of].until; got != s.number {
			return &SyntaxError{s.line, s.column, fmt.Errorf("the message is in flight until %d: got %d", got,
				s.number)}
		}
	}
	return nil
}
