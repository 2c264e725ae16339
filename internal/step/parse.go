package step

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Parse reads a plan as String prints it, possibly edited. An inconsistent plan, such as one whose tapes
// would deadlock, is an error.
func Parse(text string) (*Plan, error) {
	r := &reader{lines: strings.Split(text, "\n"), p: &Plan{}}
	for r.at < len(r.lines) {
		if err := r.entry(); err != nil {
			return nil, err
		}
	}
	if r.p.Schedule == nil {
		return nil, r.errorf("no schedule: want a plan as galley dump --after=tape prints it")
	}
	return r.p, r.finish()
}

// most bounds the numbers of a plan.
const most = 1 << 20

// reader reads a plan entry by entry.
type reader struct {
	lines  []string
	at     int // the index of the next line
	p      *Plan
	meshes []*mesh.Mesh
	kinded bool
}

func (r *reader) errorf(format string, args ...any) error {
	return &SyntaxError{max(1, min(r.at, len(r.lines))), 1, fmt.Errorf(format, args...)}
}

// next returns a scanner of the next line.
func (r *reader) next() *scanner {
	r.at++
	return &scanner{text: strings.TrimRight(r.lines[r.at-1], " \t\r"), line: r.at}
}

// indented reports whether the next line belongs to the current entry.
func (r *reader) indented() bool {
	return r.at < len(r.lines) && strings.HasPrefix(r.lines[r.at], "  ")
}

// entry reads the entry that begins on the next line. An entry comes after those that it refers to.
func (r *reader) entry() error {
	s := r.next()
	if !s.more() {
		return nil
	}
	at := s.column()
	word := s.word()
	e, ok := entries[word]
	switch {
	case !ok:
		s.errorf(at, "unknown entry %q", word)
	case !r.kinded && word != "plan":
		s.errorf(at, "got %q, want plan first", word)
	case e.late && r.p.Schedule == nil:
		s.errorf(at, "%s before the schedule: want it after", word)
	case e.block != nil:
		return e.block(r, s)
	default:
		e.line(r, s)
	}
	return s.end()
}

// entries are the kinds of entries of a plan: single lines and blocks. late ones come after the schedule.
var entries = map[string]struct {
	line  func(r *reader, s *scanner)
	block func(r *reader, s *scanner) error
	late  bool
}{
	"plan":     {line: (*reader).kind},
	"mesh":     {line: (*reader).mesh},
	"schedule": {block: (*reader).schedule},
	"variants": {line: func(r *reader, s *scanner) { r.p.Variant = s.numbers(most) }},
	"scalars":  {line: func(r *reader, s *scanner) { r.p.Scalars = s.types() }},
	"inputs":   {line: (*reader).inputs, late: true},
	"results":  {line: (*reader).results, late: true},
	"weight":   {line: (*reader).weight, late: true},
	"stage":    {line: (*reader).stage, late: true},
	"part":     {block: (*reader).part, late: true},
	"program":  {block: (*reader).program},
	"tape":     {block: (*reader).tape, late: true},
}

func (r *reader) kind(s *scanner) {
	at := s.column()
	word := s.word()
	i := slices.Index([]string{Train.String(), ForwardPass.String()}, word)
	if i < 0 || r.kinded {
		s.errorf(at, "got %q, want one line with train or forward", word)
		return
	}
	r.p.Kind, r.kinded = Kind(i), true
	r.p.Whole = s.is("whole")
	r.p.Backend = r.p.Whole && s.is("backend")
	r.p.AsIs = !r.p.Whole && s.is("as_is")
}

func (r *reader) mesh(s *scanner) {
	at := s.column()
	if n := s.number(most); n != len(r.meshes) {
		s.errorf(at, "mesh %d: want %d next", n, len(r.meshes))
	}
	at = s.column()
	m, err := mesh.Parse(s.word())
	if err == nil && slices.Max(m.Devices()) >= most {
		err = fmt.Errorf("mesh %v: want devices below %d", m, most)
	}
	s.fail(at, err)
	r.meshes = append(r.meshes, m)
}

// schedule reads the lines of the schedule. The first meshes are those of its ranks.
func (r *reader) schedule(s *scanner) error {
	if err := s.end(); err != nil {
		return err
	}
	if r.p.Schedule != nil {
		return r.errorf("a second schedule")
	}
	first := r.at
	var lines []string
	for r.indented() {
		lines = append(lines, strings.TrimPrefix(r.lines[r.at], "  "))
		r.at++
	}
	x, err := pipeline.Parse(strings.Join(lines, "\n"))
	if e, ok := errors.AsType[*pipeline.SyntaxError](err); ok {
		return &SyntaxError{first + e.Line, 2 + e.Column, errors.New(e.Message)}
	}
	if err == nil && r.p.Kind == Train && !r.p.Whole {
		_, err = pipeline.Check(x)
	}
	if err == nil && len(x.Ranks) > len(r.meshes) {
		err = fmt.Errorf("schedule has %d ranks: got meshes for %d", len(x.Ranks), len(r.meshes))
	}
	if err != nil {
		return &SyntaxError{first, 1, err}
	}
	r.p.Schedule, r.p.Meshes = x, r.meshes[:len(x.Ranks)]
	return nil
}

func (r *reader) inputs(s *scanner) {
	at := s.column()
	if n := s.number(most); n != len(r.p.Inputs) {
		s.errorf(at, "inputs of variant %d: want %d next", n, len(r.p.Inputs))
	}
	r.p.Inputs = append(r.p.Inputs, s.types())
}

func (r *reader) results(s *scanner) {
	at := s.column()
	if n := s.number(most); n != len(r.p.Results) {
		s.errorf(at, "results of variant %d: want %d next", n, len(r.p.Results))
	}
	last := r.p.Meshes[r.p.Schedule.Place[len(r.p.Schedule.Place)-1]]
	var list []Result
	for s.more() {
		at := s.column()
		word := s.word()
		i := strings.IndexByte(word, '@')
		if i < 0 {
			s.errorf(at, "got %q, want a type and a layout such as f32[2,3]@[dp,_]", word)
			return
		}
		t, err := ir.ParseType(word[:i])
		s.fail(at, err)
		list = append(list, Result{t, s.parseSpec(at+i, word[i:], last, t)})
	}
	r.p.Results = append(r.p.Results, list)
}

func (r *reader) weight(s *scanner) {
	var w State
	at := s.column()
	w.Name, w.Type = s.quoted(), s.typ()
	if slices.ContainsFunc(r.p.Weights, func(x State) bool { return x.Name == w.Name }) {
		s.errorf(at, "a second weight %q", w.Name)
	}
	w.Layouts = r.weightLayouts(s, r.p.Meshes[0], w.Type)
	s.want("home")
	w.Home = s.number(len(r.p.Meshes))
	if s.is("copies") {
		w.Copies = s.numbers(len(r.p.Meshes))
	}
	for s.is("on") {
		rank := s.number(len(r.p.Meshes))
		s.want("mesh")
		m := r.meshes[s.number(len(r.meshes))]
		l := r.weightLayouts(s, m, w.Type)
		if w.On == nil {
			w.On = map[int]Layouts{}
		}
		l.Mesh = m
		w.On[rank] = l
	}
	s.want("slots")
	w.Slots = s.types()
	r.p.Weights = append(r.p.Weights, w)
}

// weightLayouts reads the layouts of a weight.
func (r *reader) weightLayouts(s *scanner, m *mesh.Mesh, t ir.Type) (l Layouts) {
	for _, x := range []struct {
		word string
		at   *mesh.Spec
	}{{"use", &l.Use}, {"rest", &l.Rest}, {"sum", &l.Sum}, {"slot", &l.Slot}} {
		s.want(x.word)
		*x.at = s.spec(m, t)
	}
	return l
}

func (r *reader) stage(s *scanner) {
	at := s.column()
	n := s.number(r.p.Schedule.Stages)
	if n != len(r.p.Stages) {
		s.errorf(at, "stage %d: want %d next", n, len(r.p.Stages))
		return
	}
	s.want("rank")
	at = s.column()
	x := Stage{Rank: s.number(len(r.p.Meshes))}
	if s.err == nil && x.Rank != r.p.Schedule.Place[n] {
		s.errorf(at, "stage %d is on rank %d in the schedule", n, r.p.Schedule.Place[n])
	}
	if s.is("begin") {
		x.Begin = s.quoted()
	}
	r.p.Stages = append(r.p.Stages, x)
}

// function returns the lines of a program, up to the closing brace, and the line on which it begins.
func (r *reader) function() (text string, first int) {
	first = r.at
	for r.at < len(r.lines) {
		r.at++
		if strings.TrimRight(r.lines[r.at-1], " \t\r") == "}" {
			break
		}
	}
	return strings.Join(r.lines[first:r.at], "\n"), first + 1
}

// program reads a program that runs on single devices.
func (r *reader) program(s *scanner) error {
	at := s.column()
	if n := s.number(most); n != len(r.p.programs) {
		s.errorf(at, "program %d: want %d next", n, len(r.p.programs))
	}
	var g memoryReuse
	if s.is("donates") {
		g.donated = s.numbers(most)
	}
	if s.is("spends") {
		g.spent = s.numbers(most)
	}
	offloaded := s.offloaded()
	if err := s.end(); err != nil {
		return err
	}
	text, first := r.function()
	f, err := ir.Parse(text, op.Lookup)
	if err == nil {
		err = r.p.compile(f, g, offloaded)
	}
	if err != nil {
		return within(first, 1, err)
	}
	return nil
}
