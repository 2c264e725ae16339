package branch

import "github.com/galley-ml/galley/internal/ir"

// clocks is a run as it is predicted: when each device is free, and when each value is where.
type clocks struct {
	free [2]float64
	at   [][2]float64 // by value; less than 0 is not there
}

func (g *graph) newRun() *clocks {
	s := &clocks{at: make([][2]float64, g.f.NumValues())}
	for i := range s.at {
		s.at[i] = [2]float64{-1, -1}
	}
	return s
}

// ready returns when a value can be read on a device that is free from a time on: what comes from the other
// is waited for and then received, which is the device's work, too. A parameter that was not read before is
// there.
func (s *clocks) ready(g *graph, v *ir.Value, device int, free float64) float64 {
	t := s.at[v.ID()]
	switch {
	case t[device] >= 0:
		return max(free, t[device])
	case t[1-device] >= 0:
		return max(free, t[1-device]) + g.message[v.ID()]
	}
	return free
}

// span returns when a node would begin and end on a device.
func (s *clocks) span(g *graph, node, device int) (start, end float64) {
	start = s.free[device]
	for _, v := range g.f.Nodes()[node].In() {
		start = s.ready(g, v, device, start)
	}
	return start, start + g.seconds[node]
}

// take runs a node on a device and is when it begins and ends.
func (s *clocks) take(g *graph, node, device int) (start, end float64) {
	n := g.f.Nodes()[node]
	start, end = s.span(g, node, device)
	for _, v := range n.In() {
		if s.at[v.ID()][device] < 0 {
			s.at[v.ID()][device] = start
		}
	}
	for _, v := range n.Out() {
		s.at[v.ID()] = [2]float64{-1, -1}
		s.at[v.ID()][device] = end
	}
	s.free[device] = end
	return start, end
}

// run returns what the places of a plan take.
func (g *graph) run(p *Plan) float64 {
	g.homes(p)
	s := g.newRun()
	for i, v := range g.f.Params() {
		s.at[v.ID()][p.home[i]] = 0
	}
	for _, i := range p.order {
		p.start[i], p.end[i] = s.take(g, i, p.device[i])
	}
	end := max(s.free[0], s.free[1])
	for r, i := range g.next { // a maximum: its order does not matter
		end = max(end, s.ready(g, g.f.Results()[r], p.home[i], 0))
	}
	return end
}

// homes puts parameters where their next values are made, and others where they are first read.
func (g *graph) homes(p *Plan) {
	if p.home == nil {
		p.home = make([]int, len(g.f.Params()))
	}
	at := make([]int, g.f.NumValues())
	for i := range at {
		at[i] = -1
	}
	for _, i := range p.order {
		for _, v := range g.f.Nodes()[i].In() {
			if at[v.ID()] < 0 {
				at[v.ID()] = p.device[i]
			}
		}
	}
	for i, v := range g.f.Params() {
		p.home[i] = max(0, at[v.ID()])
	}
	for r, i := range g.next {
		if made := g.made[g.f.Results()[r].ID()]; made >= 0 {
			p.home[i] = p.device[made]
		}
	}
}

// count adds up what changes devices.
func (g *graph) count(p *Plan) {
	p.Messages, p.Bytes = 0, 0
	for _, v := range values(g.f) {
		from := -1
		if made := g.made[v.ID()]; made >= 0 {
			from = p.device[made]
		} else {
			from = p.home[v.ID()]
		}
		for _, u := range g.users[v.ID()] {
			if p.device[u] != from {
				p.Messages++
				p.Bytes += float64(v.Type().Bytes())
				break
			}
		}
	}
}

// values returns all values of a program; parameters are numbered as they come.
func values(f *ir.Func) []*ir.Value {
	list := append([]*ir.Value(nil), f.Params()...)
	for _, n := range f.Nodes() {
		list = append(list, n.Out()...)
	}
	return list
}
