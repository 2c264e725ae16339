package step

import (
	"time"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/op"
)

// beginning is the start of an instruction among the events of a tape: before the event of a number.
type beginning struct {
	before int
	event  event
}

// withBegins inserts the starts of instructions among events.
func withBegins(list []event, begins []beginning) []event {
	if len(begins) == 0 {
		return list
	}
	var out []event
	next := 0
	for i, e := range list {
		for next < len(begins) && begins[next].before == i {
			out = append(out, begins[next].event)
			next++
		}
		out = append(out, e)
	}
	return out
}

// span describes what a device does in an instruction, without its times.
func (t *tape) span(i int) Span {
	s := Span{Device: t.device, Kind: Message, Name: t.code[i].name()}
	if t.code[i].kind == call {
		s.Kind, s.Live = Work, t.live(i)
	}
	return s
}

// reportEvent reports what a device has done when an event is over: a collective, or the previous
// instruction.
func (c *stepSimulator) reportEvent(p *simDevice, e *event) {
	if c.watch == nil {
		return
	}
	switch e.kind {
	case collective:
		c.report(Span{Device: p.device, Kind: Exchange, Name: e.at.text}, p.arrived)
	case started, ended:
		if p.doing != nil {
			c.report(p.doing.span, p.since)
		}
		p.doing, p.since = e, c.now
	}
}

// report reports a span that ends now, unless it took no time.
func (c *stepSimulator) report(s Span, since float64) {
	if c.now <= since {
		return
	}
	at := func(seconds float64) time.Time {
		return time.Time{}.Add(time.Duration(seconds * float64(time.Second)))
	}
	s.Start, s.End = at(since), at(c.now)
	c.watch(s)
}

// Nominal prices devices without measurements, each with a processor of its own.
type Nominal struct{ spmd.Prices }

// Node returns the seconds of a node; of a collective, those of what a device sends in it.
func (n Nominal) Node(x *ir.Node, _ int) float64 {
	o, ok := x.Op().(op.Op)
	if !ok {
		return 0
	}
	w := o.Work(typesOfValues(x.In()), typesOfValues(x.Out()))
	if _, ok := o.(op.Collective); ok {
		return n.Message(w.Wire)
	}
	return n.Compute(w)
}

// Deliver returns the seconds of a message.
func (n Nominal) Deliver(bytes float64) float64 { return n.Message(bytes) }

// Copy returns the seconds in which bytes are read and written.
func (n Nominal) Copy(bytes float64) float64 { return n.Compute(op.Work{Bytes: 2 * bytes}) }
