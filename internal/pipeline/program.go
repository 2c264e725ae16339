package pipeline

// Program is a schedule with its dependencies resolved, for simulating it under many costs. It is immutable,
// so simulators may share it.
type Program struct {
	flow  flow
	steps []step // of all ranks, one rank after the other
	first []int  // where the steps of each rank begin, and the end
	links []link
	has   [kinds]bool // kinds that the schedule uses
	heads []int       // the first link of each rank, or none
}

// step is an action and its dependencies.
type step struct {
	Action
	need, makes int32 // cells, or none
	wakes       int32 // the rank that needs its result
	link        int32 // the link that carries its result, or none
	boundary    int32 // the boundary that it crosses
}

// link carries messages from one rank to another, one after the other. Links of one sender form a list.
type link struct{ from, to, next int }

// Prepare resolves the dependencies of a schedule. The schedule should have passed Check and must not change
// while the program is used.
func Prepare(s *Schedule) (*Program, error) {
	p := new(Program)
	if err := p.load(s); err != nil {
		return nil, err
	}
	return p, nil
}

// Schedule returns the schedule of the program.
func (p *Program) Schedule() *Schedule { return p.flow.s }

func (p *Program) load(s *Schedule) error {
	if err := shape(s); err != nil {
		return err
	}
	if err := p.scan(s); err != nil {
		return err
	}
	p.flow = flow{s, p.has[SendForward] || p.has[RecvForward] || p.has[SendBackward] || p.has[RecvBackward]}
	p.links, p.heads = p.links[:0], reset(p.heads, len(s.Ranks), none)
	p.steps, p.first = p.steps[:0], p.first[:0]
	for _, actions := range s.Ranks {
		p.first = append(p.first, len(p.steps))
		for _, a := range actions {
			p.steps = append(p.steps, p.step(a))
		}
	}
	p.first = append(p.first, len(p.steps))
	return nil
}

// scan refuses actions that would not fit the tables, and records which kinds there are.
func (p *Program) scan(s *Schedule) error {
	clear(p.has[:])
	stages, micros := uint(s.Stages), uint(s.Micros)
	for _, actions := range s.Ranks {
		for i := range actions {
			a := &actions[i]
			bad := uint(a.Stage) >= stages || uint(a.Micro) >= micros || a.Kind >= kinds || a.Joined &&
				i+1 == len(actions) ||
				a.Kind > Weight && uint(a.Peer()) >= stages
			if bad {
				_, err := Check(s)
				return err
			}
			p.has[a.Kind] = true
		}
	}
	return nil
}

func (p *Program) step(a Action) step {
	x := step{Action: a, need: int32(p.flow.needs(a)), makes: int32(p.flow.makes(a)), wakes: none, link: none,
		boundary: none}
	if x.makes == none {
		return x
	}
	place := p.flow.s.Place
	to := place[p.flow.stageOf(int(x.makes))]
	x.wakes = int32(to)
	if i := p.flow.carried(a); i != none {
		x.boundary, x.link = int32(i), int32(p.linkTo(place[a.Stage], to))
	}
	return x
}

// linkTo finds or makes the link between two ranks.
func (p *Program) linkTo(from, to int) int {
	for i := p.heads[from]; i != none; i = p.links[i].next {
		if p.links[i].to == to {
			return i
		}
	}
	p.links = append(p.links, link{from: from, to: to, next: p.heads[from]})
	p.heads[from] = len(p.links) - 1
	return p.heads[from]
}
