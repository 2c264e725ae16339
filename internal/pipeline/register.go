package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// foreignClasses holds the schedules of other modules; the list is replaced, never changed.
var foreignClasses atomic.Pointer[[]*Class]

// registering is held while the list is replaced.
var registering sync.Mutex

func outside() []*Class {
	if list := foreignClasses.Load(); list != nil {
		return *list
	}
	return nil
}

// Register adds a schedule of another module: its properties, and its generator, which must make a schedule
// for every number of ranks and micro-batches. It is tested in many sizes immediately, and each schedule that
// it makes later is checked before it runs: complete, in order, free of deadlocks, and consistent with c.
func Register(c Class, build func(Config) *Schedule) error {
	registering.Lock()
	defer registering.Unlock()
	switch {
	case !named(c.Name):
		return fmt.Errorf("schedule %q: want a name of letters, digits, '-', '_' and '.'", c.Name)
	case slices.ContainsFunc(Classes(), func(o *Class) bool { return o.Name == c.Name }):
		return fmt.Errorf("schedule %s: there is a schedule of that name", c.Name)
	case build == nil:
		return fmt.Errorf("schedule %s: it has no generator", c.Name)
	case c.Chunks < 0 || c.Vee && c.Chunks != 2:
		return fmt.Errorf("schedule %s: %d chunks a rank: want one or more, two on a V, or 0 for any number",
			c.Name, c.Chunks)
	}
	own := &c
	own.foreign, own.build = true, build
	own.idle = func(Config, times) (float64, error) { return 0, noForm(c.Name, "it is from another module") }
	own.fill = own.simulatedFill()
	if err := own.try(); err != nil {
		return err
	}
	list := append(slices.Clone(outside()), own)
	foreignClasses.Store(&list)
	return nil
}

// try generates schedules of many sizes.
func (c *Class) try() error {
	chunks := []int{c.Chunks}
	if c.Chunks == 0 {
		chunks = []int{1, 2, 3}
	}
	for _, v := range chunks {
		for ranks := 1; ranks <= 5; ranks++ {
			for micros := 1; micros <= 2*ranks+3; micros++ {
				if _, err := c.Generate(Config{Ranks: ranks, Micros: micros, Chunks: v}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// holds returns an error unless a schedule is valid and consistent with its class.
func (c *Class) holds(s *Schedule, g Config) error {
	if s == nil {
		return errors.New("the generator made none")
	}
	if len(s.Ranks) != g.Ranks || s.Micros != g.Micros || s.Stages != g.Ranks*g.Chunks {
		return fmt.Errorf("the generator made one of %d ranks, %d micro-batches and %d stages", len(s.Ranks),
			s.Micros, s.Stages)
	}
	if s.Lowered() {
		return errors.New("it has sends and receives: they are added when it runs")
	}
	if _, err := Check(s); err != nil {
		return err
	}
	for stage, rank := range s.Place {
		if want := c.Rank(stage, g.Ranks); rank != want {
			return fmt.Errorf("stage %d is on rank %d: its class says %d", stage, rank, want)
		}
	}
	if s.Splits() && !c.Split {
		return errors.New("it splits backward passes: its class says it does not")
	}
	if !c.Pairs && slices.ContainsFunc(s.Ranks, func(r []Action) bool {
		return slices.ContainsFunc(r, func(a Action) bool { return a.Joined })
	}) {
		return errors.New("it joins forwards and backwards: its class says it does not")
	}
	return nil
}

// simulatedFill is like Fill for schedules without a closed form: it simulates equal stages and caches the
// result by size. More micro-batches than a few rounds do not change it.
func (c *Class) simulatedFill() func(Config, Load) float64 {
	var known sync.Map
	return func(g Config, l Load) float64 {
		if g.Ranks < 2 {
			return 0
		}
		g.Micros = min(g.Micros, 3*g.Ranks)
		share, ok := known.Load(g)
		if !ok {
			share = c.idleShare(g)
			known.Store(g, share)
		}
		return share.(float64) * l.Others / float64(g.Ranks-1)
	}
}

// idleShare returns the longest idle time of a rank, relative to its computation for one micro-batch.
func (c *Class) idleShare(g Config) float64 {
	s, err := c.Generate(g)
	if err != nil {
		return 0 // generating this schedule returns the error
	}
	line, err := Simulate(s, Uniform(1, 2))
	if err != nil {
		return 0
	}
	return (line.Makespan - slices.Max(line.Work)) / float64(3*s.Chunks())
}
