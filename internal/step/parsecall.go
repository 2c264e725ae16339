package step

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// run reads a call of a program.
func (x *tapeReader) run(s *scanner, in *instruction) {
	at, count := s.column(), len(x.t.buffers)
	if in.program = s.number(max(1, len(x.r.p.programs))); len(x.r.p.programs) == 0 {
		s.errorf(at, "no program is listed above")
		return
	}
	in.exe = x.r.p.programs[in.program].exe
	if s.is("args") {
		in.args = s.buffers(count)
	}
	if s.is("out") {
		in.out = s.buffers(count)
	}
	if s.is("arena") {
		in.arena = s.buffer(count)
	}
	for s.is("load") {
		x.load(s, in)
	}
	for s.is("copy") {
		at := s.column()
		c := [2]int{s.buffer(count), s.buffer(count)}
		if s.err == nil && !x.t.buffers[c[0]].t.Equal(x.t.buffers[c[1]].t) {
			s.errorf(at, "a copy from %v to %v", x.t.buffers[c[0]].t, x.t.buffers[c[1]].t)
		}
		in.copies = append(in.copies, c)
	}
	if s.err == nil {
		s.fail(at, x.checkCall(in))
	}
}

// checkOffloaded returns an error if a buffer is offloaded and the program's parameter or result is not, or
// the other way round.
func (x *tapeReader) checkOffloaded(in *instruction) error {
	offloaded := x.r.p.programs[in.program].offloaded
	for _, side := range []struct {
		name               string
		buffers, offloaded []int
	}{{"parameter", in.args, offloaded.Params}, {"result", in.out, offloaded.Results}} {
		for i, b := range side.buffers {
			if x.t.buffers[b].offloaded != slices.Contains(side.offloaded, i) {
				return fmt.Errorf("%s %d of program %d: it and buffer %%%d must both be away or neither", side.name, i,
					in.program, b)
			}
		}
	}
	return nil
}

// load reads which part of the batch a buffer holds.
func (x *tapeReader) load(s *scanner, in *instruction) {
	at, p := s.column(), x.r.p
	l := load{buffer: s.buffer(len(x.t.buffers))}
	s.want("input")
	l.batch = s.number(most)
	s.want("start")
	l.box.Start = s.ints()
	s.want("size")
	l.box.Size = s.ints()
	if s.err != nil {
		return
	}
	if in.action.Stage < 0 && in.action.Stage != int(AsWhole) || in.action.Micro >= len(p.Variant) ||
		p.Variant[in.action.Micro] >= len(p.Inputs) ||
		l.batch >= len(p.Inputs[p.Variant[in.action.Micro]]) {
		s.errorf(at, "%s has no input %d", in.name(), l.batch)
		return
	}
	t := p.Inputs[p.Variant[in.action.Micro]][l.batch]
	if b := x.t.buffers[l.buffer].t; b.DType != t.DType || !slices.Equal(b.Shape, l.box.Size) ||
		!inside(l.box, t.Shape) {
		s.errorf(at, "buffer %%%d is %v: it is not part %v of input %d, %v", l.buffer, b, l.box, l.batch, t)
	}
	in.loads = append(in.loads, l)
}

// inside reports whether a box is within a shape.
func inside(b mesh.Box, shape []int) bool {
	if len(b.Start) != len(shape) || len(b.Size) != len(shape) {
		return false
	}
	for d, n := range shape {
		if b.Start[d] > n || b.Size[d] > n-b.Start[d] {
			return false
		}
	}
	return true
}

// checkCall returns an error if the buffers do not match the program's parameters, results and arena.
func (x *tapeReader) checkCall(in *instruction) error {
	f := in.exe.Func()
	for _, side := range []struct {
		name    string
		buffers []int
		values  []*ir.Value
	}{{"parameters", in.args, f.Params()}, {"results", in.out, f.Results()}} {
		if len(side.buffers) != len(side.values) {
			return fmt.Errorf("program %d has %d %s: got %d buffers", in.program, len(side.values), side.name,
				len(side.buffers))
		}
		for i, b := range side.buffers {
			if got, want := x.t.buffers[b].t, side.values[i].Type(); !got.Equal(want) {
				return fmt.Errorf("%s %d of program %d is %v: buffer %%%d is %v", side.name, i, in.program,
					want, b, got)
			}
		}
	}
	if err := x.checkOffloaded(in); err != nil {
		return err
	}
	arena := 0
	if in.arena >= 0 {
		arena = x.t.buffers[in.arena].t.Bytes()
	}
	if want := in.exe.Memory().Arena; arena != want {
		return fmt.Errorf("program %d needs an arena of %d bytes: got %d", in.program, want, arena)
	}
	return nil
}
