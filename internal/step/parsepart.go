package step

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// part reads a program of a stage and its communication.
func (r *reader) part(s *scanner) error {
	x := r.partHead(s)
	if err := s.end(); err != nil {
		return err
	}
	home := 0
	if x.Stage >= 0 {
		home = r.p.Schedule.Place[x.Stage]
	}
	text, first := r.function()
	f, notes, err := ir.ParseNoted(text, op.Lookup)
	if err != nil {
		return within(first, 1, err)
	}
	x.Func = f
	if err := r.layouts(x, notes, home); err != nil {
		return &SyntaxError{first, 1, err}
	}
	for r.indented() {
		c := r.next()
		x.Communications = append(x.Communications, c.communication())
		if err := c.end(); err != nil {
			return err
		}
	}
	r.p.Parts = append(r.p.Parts, x)
	return nil
}

func (r *reader) partHead(s *scanner) *Part {
	x := &Part{}
	for stage, word := range whenWords {
		if (r.p.Whole || stage == int(AtUpdate)) && s.is(word) {
			x.Stage = stage
			return x
		}
	}
	x.Stage = s.number(r.p.Schedule.Stages)
	at := s.column()
	kind := s.word()
	for x.Kind = pipeline.Forward; x.Kind.String() != kind; x.Kind++ {
		if !x.Kind.Computes() {
			s.errorf(at, "got %q, want F, B, I or W", kind)
			break
		}
	}
	s.want("variant")
	x.Variant = s.number(max(1, len(r.p.Inputs)))
	x.First = s.is("first")
	return x
}

// layouts reads the layouts of the values of a part.
func (r *reader) layouts(x *Part, notes *ir.Noted, home int) error {
	types := typesOf(x.Func)
	for id, note := range notes.Values {
		at := home
		text, number, elsewhere := strings.Cut(note, "/")
		if elsewhere {
			var err error
			if at, err = strconv.Atoi(number); err != nil || at < 0 || at >= len(r.meshes) {
				return fmt.Errorf("value %%%d: %q: no such mesh", id, note)
			}
		}
		spec, err := specOf(text, r.meshes[at], types[id])
		if err != nil {
			return fmt.Errorf("value %%%d: %w", id, err)
		}
		x.Meshes, x.Specs = append(x.Meshes, r.meshes[at]), append(x.Specs, spec)
	}
	for i, note := range notes.Results {
		spec, err := mesh.ParseSpec(note)
		if err != nil || len(spec.Dims) != len(x.Func.Results()[i].Shape()) {
			return fmt.Errorf("result %d: %q: want a layout such as @[dp,_]", i, note)
		}
		x.ResultSpecs = append(x.ResultSpecs, spec)
	}
	return nil
}

func specOf(text string, m *mesh.Mesh, t ir.Type) (mesh.Spec, error) {
	spec, err := mesh.ParseSpec(text)
	if err == nil {
		err = spec.Check(m, len(t.Shape))
	}
	return spec, err
}

// communication reads one collective of a part.
func (s *scanner) communication() spmd.Communication {
	c := spmd.Communication{Count: 1}
	s.want("exchange")
	c.Kind = s.word()
	for _, x := range []struct {
		word string
		at   *string
	}{{"over", &c.Axes}, {"of", &c.Tensor}, {"from", &c.From}, {"to", &c.To}} {
		s.want(x.word)
		*x.at = s.quoted()
	}
	s.want("bytes")
	c.Bytes = s.float()
	s.want("seconds")
	c.Seconds = s.float()
	for _, x := range []struct {
		word string
		at   *string
	}{{"for", &c.Op}, {"at", &c.Line}, {"since", &c.Reason}} {
		s.want(x.word)
		*x.at = s.quoted()
	}
	c.Asked = s.is("asked")
	return c
}

// finish checks a plan as a whole.
func (r *reader) finish() error {
	p := r.p
	if len(p.Stages) != p.Schedule.Stages {
		return r.errorf("%d stages: the schedule has %d", len(p.Stages), p.Schedule.Stages)
	}
	if len(p.Variant) != p.Schedule.Micros {
		return r.errorf("variants of %d micro-batches: the schedule has %d", len(p.Variant), p.Schedule.Micros)
	}
	for _, v := range p.Variant {
		if v >= len(p.Inputs) || p.Kind == ForwardPass && v >= len(p.Results) {
			return r.errorf("variant %d: want its inputs, and results of a forward pass", v)
		}
	}
	if p.tapes == nil {
		return nil
	}
	for rank, m := range p.Meshes {
		for _, id := range m.Devices() {
			if id >= len(p.tapes) || p.tapes[id] == nil || p.tapes[id].rank != rank {
				return r.errorf("device %d of rank %d has no tape", id, rank)
			}
		}
	}
	if err := p.match(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}
