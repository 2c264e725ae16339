package plan

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/strategy"
)

// checkSchedule checks that the schedule exists and supports the number of chunks.
func checkSchedule(s *strategy.Strategy) error {
	if s.OwnSchedule() {
		return errors.New("strategy: own schedules are not priced: want the name of one")
	}
	c, err := pipeline.Choose(s.Schedule, s.VPP)
	if err == nil {
		err = c.Check(s.VPP)
	}
	if err != nil {
		return fmt.Errorf("strategy: %w", err)
	}
	return nil
}

// scheduleKey holds what a generated schedule depends on.
type scheduleKey struct {
	class                 *pipeline.Class
	ranks, chunks, micros int
}

// generated is a schedule and the maximal number of micro-batches that each rank holds, chunk by chunk.
type generated struct {
	schedule *pipeline.Schedule
	live     []int
}

// order returns a schedule, cached.
func (e *Estimator) order(k scheduleKey) (*generated, error) {
	e.mu.RLock()
	g, ok := e.schedules[k]
	e.mu.RUnlock()
	if ok {
		return g, nil
	}
	s, err := k.class.Generate(pipeline.Config{Ranks: k.ranks, Micros: k.micros, Chunks: k.chunks})
	if err != nil {
		return nil, err
	}
	r, err := pipeline.Check(s)
	if err != nil {
		return nil, err
	}
	g = &generated{s, r.Live}
	e.mu.Lock()
	e.schedules[k] = g
	e.mu.Unlock()
	return g, nil
}

// mostCells is the number of pairs of chunk and micro-batch that an estimate simulates. With more, the steady
// state between warm-up and end has the pace of the busiest rank; if even two rounds are more, the closed
// form is used.
const mostCells = 1536

// shortened returns the number of micro-batches to simulate in place of micros: a few rounds and the same
// remainder.
func shortened(s *strategy.Strategy, micros int) int {
	rounds := 3
	if micros <= rounds*s.PP || micros*s.PP*s.VPP <= mostCells/2 {
		return micros
	}
	return (rounds-1)*s.PP + micros%s.PP
}

// flow sets the time of all micro-batches' passes through the pipeline.
func (e *Estimator) flow(s *strategy.Strategy, t *stages, micros int, out *Estimate) error {
	slow := 0
	for i := range t.ranks {
		if t.ranks[i].busy() > t.ranks[slow].busy() {
			slow = i
		}
	}
	w := &t.ranks[slow].work
	m := float64(micros)
	p := &out.Parts
	p.Compute = m * (w.forward + w.input + w.weight)
	p.Recompute = m * w.again
	p.TP, p.CP, p.EP = m*(w.tp+w.tpAgain), m*w.cp, m*w.ep
	p.PP = m * w.sends
	p.DP = m * w.gather
	p.Fixed = m * w.fixed
	if s.PP == 1 {
		return nil
	}
	n := shortened(s, micros)
	if n*s.PP*s.VPP > mostCells {
		p.Bubble = e.closed(s, t, micros, w)
		return nil
	}
	span, err := e.simulate(s, t, n)
	if err != nil {
		return err
	}
	p.Bubble = max(0, span-float64(n)*w.busy())
	return nil
}

// simulate returns the time of n micro-batches with the real schedule.
func (e *Estimator) simulate(s *strategy.Strategy, t *stages, n int) (float64, error) {
	g, err := e.order(scheduleKey{s.Class(), s.PP, s.VPP, n})
	if err != nil {
		return 0, err
	}
	sim := e.simulators.Get().(*simulation)
	defer e.simulators.Put(sim)
	sim.costs(e, t)
	line, err := sim.Run(g.schedule, &sim.c)
	if err != nil {
		return 0, err
	}
	return line.Makespan, nil
}

// simulation is a simulator with the memory for its costs.
type simulation struct {
	pipeline.Simulator
	c pipeline.Costs
}

// costs fills in the costs of every chunk.
func (m *simulation) costs(e *Estimator, t *stages) {
	c := &m.c
	c.Forward, c.Backward, c.Input, c.Weight = c.Forward[:0], c.Backward[:0], c.Input[:0], c.Weight[:0]
	for i := range t.chunks {
		w := &t.chunks[i]
		f, b := w.forwardTime(), w.backwardTime()
		c.Forward, c.Backward = append(c.Forward, f), append(c.Backward, b)
		c.Input, c.Weight = append(c.Input, b-w.weight), append(c.Weight, w.weight)
	}
	c.Transfer = c.Transfer[:0]
	if e.w.Software.SyncSend || len(t.sends) == 0 { // sends are blocking, or there are none
		return
	}
	for i := range t.chunks { // in the background
		c.Transfer = append(c.Transfer, t.sends[i%len(t.sends)])
	}
}

// closed returns the closed form of the bubble for stages of nearly equal cost.
func (e *Estimator) closed(s *strategy.Strategy, t *stages, micros int, w *work) float64 {
	sum, weight := 0.0, 0.0
	for i := range t.ranks {
		sum += t.ranks[i].busy()
		weight += t.ranks[i].weight
	}
	load := pipeline.Load{Busiest: w.busy(), Others: sum - w.busy(), Weights: weight - w.weight}
	fill := s.Class().Fill(pipeline.Config{Ranks: s.PP, Micros: micros, Chunks: s.VPP}, load)
	if !e.w.Software.SyncSend {
		for _, send := range t.sends[:s.PP-1] {
			fill += 2 * send
		}
	}
	return fill
}

// Pipeline returns the schedule of a strategy with all its micro-batches and the costs of its actions, for a
// full simulation: times of one micro-batch in each chunk, messages, and the bytes that a chunk keeps of it.
func (e *Estimator) Pipeline(s strategy.Strategy) (*pipeline.Schedule, pipeline.Costs, error) {
	s = s.Sized(e.w.Batch)
	if err := e.Check(s); err != nil {
		return nil, pipeline.Costs{}, err
	}
	t, err := e.split(&s)
	if err != nil {
		return nil, pipeline.Costs{}, err
	}
	order, err := s.Class().Generate(pipeline.Config{Ranks: s.PP, Micros: s.Micros(e.w.Batch), Chunks: s.VPP})
	if err != nil {
		return nil, pipeline.Costs{}, err
	}
	var m simulation
	m.costs(e, t)
	for i := range t.chunks {
		m.c.Activation = append(m.c.Activation, e.chunkActivations(&s, &t.chunks[i]))
	}
	return order, m.c, nil
}
