package pipeline

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/strict"
)

// Limits of a text: numbers of stages, of micro-batches, and their product.
const (
	mostStages = 1 << 14
	mostMicros = 1 << 20
	mostCells  = 1 << 24
)

// SyntaxError is an error in a schedule's text.
type SyntaxError struct {
	// Line and Column count from one; columns are bytes.
	Line, Column int
	Message      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("schedule: %d:%d: %s", e.Line, e.Column, e.Message)
}

// Parse parses a schedule. # begins a comment. Header lines come first and are optional: "schedule NAME";
// "place 0 1 1 0", the rank of each stage, by default that of its actions; "micros 4", by default the largest
// number used. Then follows one line per rank, "0: 0F0 0F1 0B0 0B1"; without "0:" it belongs to the next
// rank. "0F1+0B0" joins two actions. Parse does not validate the schedule: Check does.
func Parse(text string) (*Schedule, error) {
	p := parser{micros: -1}
	for i, line := range strings.Split(text, "\n") {
		p.line, p.text = i+1, line
		if err := p.parseLine(); err != nil {
			return nil, err
		}
	}
	return p.finish()
}

type parser struct {
	line int
	text string // the whole line, for columns
	s    Schedule

	placed bool
	micros int // from the header, or -1
	last   int // the largest micro-batch seen, plus one
	stages int // the largest stage seen, plus one
}

// word is a piece of a line with its position.
type word struct {
	text string
	col  int
}

func (p *parser) errorf(w word, format string, args ...any) error {
	return &SyntaxError{Line: p.line, Column: w.col, Message: fmt.Sprintf(format, args...)}
}

// words splits the line, without its comment, at blanks, and after colons and plus signs.
func (p *parser) words() []word {
	line, _, _ := strings.Cut(p.text, "#")
	var ws []word
	start := -1
	cut := func(end int) {
		if start >= 0 {
			ws = append(ws, word{line[start:end], start + 1})
		}
		start = -1
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ' || c == '\t' || c == '\r':
			cut(i)
		case start < 0:
			start = i
		}
		if line[i] == ':' || line[i] == '+' {
			cut(i + 1)
		}
	}
	cut(len(line))
	return ws
}

func (p *parser) parseLine() error {
	ws := p.words()
	if len(ws) == 0 {
		return nil
	}
	switch head := ws[0]; {
	case head.text == "schedule":
		return p.name(head, ws[1:])
	case head.text == "place":
		return p.place(head, ws[1:])
	case head.text == "micros":
		return p.count(head, ws[1:])
	case strings.HasSuffix(head.text, ":"):
		w := word{strings.TrimSuffix(head.text, ":"), head.col}
		r, err := p.number(w, "rank", mostStages)
		if err != nil {
			return err
		}
		if r != len(p.s.Ranks) {
			return p.errorf(w, "rank %d out of order: want %d", r, len(p.s.Ranks))
		}
		return p.actions(ws[1:])
	case head.text[0] >= '0' && head.text[0] <= '9':
		return p.actions(ws)
	default:
		return p.errorf(head, "unknown word %q: want %s, or actions such as 0F0",
			head.text, strict.Nearest(head.text, []string{"schedule", "place", "micros"}))
	}
}

// header checks that a header line is above the ranks, and occurs once.
func (p *parser) header(w word, seen int) error {
	if len(p.s.Ranks) > 0 {
		return p.errorf(w, "%s after the first rank: put it above", w.text)
	}
	if seen > 0 {
		return p.errorf(w, "second %s line", w.text)
	}
	return nil
}

func (p *parser) name(head word, ws []word) error {
	if err := p.header(head, len(p.s.Name)); err != nil {
		return err
	}
	if len(ws) != 1 || !named(ws[0].text) {
		return p.errorf(head, "schedule takes one name of letters, digits, '-', '_' and '.'")
	}
	p.s.Name = ws[0].text
	return nil
}

func (p *parser) place(head word, ws []word) error {
	if err := p.header(head, len(p.s.Place)); err != nil {
		return err
	}
	if len(ws) == 0 {
		return p.errorf(head, "place takes the rank of each stage: place 0 1 2 3")
	}
	for _, w := range ws {
		r, err := p.number(w, "rank", mostStages)
		if err != nil {
			return err
		}
		p.s.Place = append(p.s.Place, r)
	}
	p.placed = true
	return nil
}

func (p *parser) count(head word, ws []word) error {
	if err := p.header(head, p.micros+1); err != nil {
		return err
	}
	if len(ws) != 1 {
		return p.errorf(head, "micros takes one number: micros 8")
	}
	var err error
	p.micros, err = p.number(ws[0], "micros", mostMicros)
	return err
}

func (p *parser) number(w word, what string, limit int) (int, error) {
	n, err := strconv.ParseUint(w.text, 10, 31)
	if err != nil {
		return 0, p.errorf(w, "%s %q is not a number", what, w.text)
	}
	if int(n) >= limit {
		return 0, p.errorf(w, "%s %d is too large: want less than %d", what, n, limit)
	}
	return int(n), nil
}

func (p *parser) actions(ws []word) error {
	rank := len(p.s.Ranks)
	line := make([]Action, 0, len(ws))
	for i, w := range ws {
		a, err := p.action(w)
		if err != nil {
			return err
		}
		if p.placed && a.Stage >= len(p.s.Place) {
			return p.errorf(w, "action %s: stage %d of %d: the place line has no rank for it", a, a.Stage,
				len(p.s.Place))
		}
		if !p.placed {
			p.infer(a.Stage, rank)
		}
		p.stages, p.last = max(p.stages, a.Stage+1), max(p.last, a.Micro+1)
		if a.Joined && i+1 == len(ws) {
			return p.errorf(w, "action %s is joined to nothing: want another action after +", a)
		}
		line = append(line, a)
	}
	p.s.Ranks = append(p.s.Ranks, line)
	return nil
}

// infer places a stage on the rank of its first action.
func (p *parser) infer(stage, rank int) {
	for len(p.s.Place) <= stage {
		p.s.Place = append(p.s.Place, -1)
	}
	if p.s.Place[stage] < 0 {
		p.s.Place[stage] = rank
	}
}

// ParseAction parses one action, such as 0SF1.
func ParseAction(text string) (Action, error) {
	p := parser{line: 1, text: text}
	a, err := p.action(word{text, 1})
	if err == nil && a.Joined {
		err = p.errorf(word{text, 1}, "action %q is joined to none", text)
	}
	return a, err
}

// action parses stage, letters, micro-batch.
func (p *parser) action(w word) (Action, error) {
	text, joined := strings.CutSuffix(w.text, "+")
	w.text = text
	letter := func(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }
	i := 0
	for i < len(w.text) && !letter(w.text[i]) {
		i++
	}
	j := i
	for j < len(w.text) && letter(w.text[j]) {
		j++
	}
	if i == 0 || i == j || j == len(w.text) {
		return Action{}, p.errorf(w, "action %q is not a stage, a kind and a micro-batch, such as 0F0", w.text)
	}
	kind := -1
	for k, l := range letters {
		if l == w.text[i:j] {
			kind = k
		}
	}
	if kind < 0 {
		return Action{}, p.errorf(word{w.text, w.col + i}, "unknown kind %q: want F, B, I, W, SF, RF, SB or RB",
			w.text[i:j])
	}
	stage, err := p.number(word{w.text[:i], w.col}, "stage", mostStages)
	if err != nil {
		return Action{}, err
	}
	micro, err := p.number(word{w.text[j:], w.col + j}, "micro-batch", mostMicros)
	return Action{Stage: stage, Kind: Kind(kind), Joined: joined, Micro: micro}, err
}

func (p *parser) finish() (*Schedule, error) {
	end := word{"", 1}
	s := &p.s
	if len(s.Ranks) == 0 {
		return nil, p.errorf(end, "no ranks: want a line such as 0: 0F0 0B0 for each")
	}
	for stage, r := range s.Place {
		if r < 0 {
			return nil, p.errorf(end, "stage %d has no actions, so it is on no rank", stage)
		}
		if r >= len(s.Ranks) {
			return nil, p.errorf(end, "stage %d is placed on rank %d: there are lines for %d", stage, r, len(s.Ranks))
		}
	}
	s.Stages, s.Micros = len(s.Place), p.last
	if p.micros >= 0 {
		s.Micros = p.micros
	}
	if s.Stages == 0 || s.Micros == 0 {
		return nil, p.errorf(end, "no actions")
	}
	if s.Stages*max(s.Micros, p.last) > mostCells {
		return nil, p.errorf(end, "%d stages of %d micro-batches: want a product of at most %d", s.Stages, s.Micros,
			mostCells)
	}
	return s, nil
}
