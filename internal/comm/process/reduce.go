package process

import (
	"slices"

	"github.com/galley-ml/galley/internal/comm"
)

// all is the process number of a task that every process does.
const all = -1

// task is elements lo to hi of a reduction, joined by one process, or by all.
type task struct {
	r       *comm.Reduction
	lo, hi  int
	process int
}

// messages returns the most messages that this process sends to another one in a rendezvous.
func (s *run) messages(m *rendezvous, other int) int {
	l := m.lane
	c := m.Calls[m.firstLocal()]
	here, there, terms := 0, 0, 0
	for slot, owner := range l.owner {
		if l.local[slot] {
			here++
		} else if owner == other {
			there++
		}
	}
	if c.Kind != comm.AllReduce && c.Kind != comm.ReduceScatter {
		return here * there
	}
	for _, t := range comm.Terms(l.owner) {
		if t.Process == s.world.p.rank {
			terms++
		}
	}
	rounds := len(c.Operand())/s.world.p.segment + 1
	return rounds * (terms + 1) * max(there, 1)
}

// rounds cuts the reductions into segments, and splits segments whose result goes to all among the processes.
func (x *exchange) rounds() [][]task {
	var rounds [][]task
	processes := append([]int{x.s.world.p.rank}, x.m.lane.others...)
	slices.Sort(processes)
	for _, r := range x.m.plan.Reductions {
		step := x.s.world.p.segment / r.ElementBytes()
		for i := 0; i*step < r.Len; i++ {
			lo, hi := i*step, min(r.Len, (i+1)*step)
			if i == len(rounds) {
				rounds = append(rounds, nil)
			}
			switch {
			case r.Slot >= 0:
				rounds[i] = append(rounds[i], task{r, lo, hi, x.m.lane.owner[r.Slot]})
			case x.s.world.p.exchangesWhole(x.m.lane, r.Len*r.ElementBytes()):
				rounds[i] = append(rounds[i], task{r, lo, hi, all})
			default:
				rounds[i] = append(rounds[i], shares(r, lo, hi, processes)...)
			}
		}
	}
	return rounds
}

// shareUnit keeps the shares aligned for vector instructions.
const shareUnit = 16

// shares splits elements lo to hi among processes.
func shares(r *comm.Reduction, lo, hi int, processes []int) []task {
	var list []task
	n, from := len(processes), lo
	for i, p := range processes {
		to := hi
		if i+1 < n {
			to = min(hi, lo+(hi-lo)*(i+1)/n/shareUnit*shareUnit)
		}
		if to > from {
			list = append(list, task{r, from, to, p})
		}
		from = to
	}
	return list
}

// round is a segment that is being exchanged.
type round struct {
	tasks   []task
	arrived [][]comm.Arrived // by task
	buffers [][]byte
	terms   comm.Transfer
	results comm.Transfer
}

// reduce does the reductions: while a segment is joined, the terms of the next are in flight.
func (x *exchange) reduce() error {
	list := x.rounds()
	rounds := make([]*round, len(list))
	mem := x.s.world.p.scratch.Get().(*comm.Scratch)
	defer x.s.world.p.scratch.Put(mem)
	for i := range list {
		if i == 0 {
			rounds[0] = x.sendTerms(list[0], mem)
		}
		if i+1 < len(list) {
			rounds[i+1] = x.sendTerms(list[i+1], mem)
		}
		if err := x.join(rounds[i], mem); err != nil {
			return err
		}
		if i > 0 {
			if err := x.finish(rounds[i-1]); err != nil {
				return err
			}
		}
	}
	if n := len(rounds); n > 0 {
		return x.finish(rounds[n-1])
	}
	return nil
}

// sendTerms starts the exchange of a segment's terms.
func (x *exchange) sendTerms(tasks []task, mem *comm.Scratch) *round {
	rd := &round{tasks: tasks, arrived: make([][]comm.Arrived, len(tasks))}
	me := x.s.world.p.rank
	var messages []comm.Message
	for i, t := range tasks {
		for _, term := range comm.Terms(x.m.lane.owner) {
			n := t.r.TermBytes(term, t.hi-t.lo)
			if term.Process != me {
				if t.process == me || t.process == all {
					data := x.take(rd, n)
					rd.arrived[i] = append(rd.arrived[i], comm.Arrived{Term: term, Lo: t.lo, Data: data})
					messages = append(messages, x.receive(slices.Index(x.m.lane.others, term.Process), data))
				}
				continue
			}
			if t.process == me {
				continue
			}
			data, ok := t.r.Direct(term, t.lo, t.hi)
			if !ok {
				data = x.take(rd, n)
				t.r.Term(mem, term, t.lo, t.hi, data)
			}
			for peer, other := range x.m.lane.others {
				if t.process == other || t.process == all {
					messages = x.send(messages, peer, data)
				}
			}
		}
	}
	rd.terms = x.start(messages)
	return rd
}

// take returns a buffer that is released at the end of the round.
func (x *exchange) take(rd *round, n int) []byte {
	b := x.s.world.p.buffer(n)
	rd.buffers = append(rd.buffers, b)
	return b
}

// join computes this process's share of a segment from its terms, and starts exchanging the results.
func (x *exchange) join(rd *round, mem *comm.Scratch) error {
	for _, t := range []comm.Transfer{rd.terms, x.m.sent} { // the result may overwrite an operand
		if err := x.await(t); err != nil {
			return err
		}
	}
	me := x.s.world.p.rank
	var messages []comm.Message
	for i, t := range rd.tasks {
		if t.process == me || t.process == all {
			t.r.Join(mem, t.lo, t.hi, rd.arrived[i])
		}
		if t.r.Slot >= 0 || t.process == all {
			continue
		}
		data := t.r.Result(t.lo, t.hi)
		if t.process != me {
			messages = append(messages, x.receive(slices.Index(x.m.lane.others, t.process), data))
			continue
		}
		for peer := range x.m.lane.others {
			messages = x.send(messages, peer, data)
		}
	}
	for _, b := range rd.buffers {
		x.s.world.p.release(b)
	}
	rd.results = x.start(messages)
	return nil
}

// finish waits for a segment's results and copies them to all members of this process.
func (x *exchange) finish(rd *round) error {
	if err := x.await(rd.results); err != nil {
		return err
	}
	for _, t := range rd.tasks {
		if t.r.Slot < 0 && t.process != x.s.world.p.rank && t.process != all {
			t.r.Spread(t.lo, t.hi)
		}
	}
	return nil
}
