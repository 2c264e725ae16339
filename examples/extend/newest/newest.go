// Package newest is a pipeline schedule of another module than Galley's: all forwards, then the backwards of
// the newest micro-batches first.
package newest

import "github.com/galley-ml/galley/strategy"

// Name is what Strategy.Schedule calls it.
const Name = "newest"

func init() {
	err := strategy.RegisterSchedule(strategy.ScheduleClass{
		Name: Name, About: "all forwards, then the newest backwards first", Chunks: 1, Worse: "1f1b",
	}, build)
	if err != nil {
		panic(err)
	}
}

func build(c strategy.ScheduleConfig) *strategy.Schedule {
	s := &strategy.Schedule{Stages: c.Ranks, Micros: c.Micros, Place: strategy.CyclicPlace(c.Ranks, 1)}
	for rank := range c.Ranks {
		var actions []strategy.Action
		for m := range c.Micros {
			actions = append(actions, strategy.Action{Stage: rank, Kind: strategy.Forward, Micro: m})
		}
		for m := c.Micros - 1; m >= 0; m-- {
			actions = append(actions, strategy.Action{Stage: rank, Kind: strategy.Backward, Micro: m})
		}
		s.Ranks = append(s.Ranks, actions)
	}
	return s
}
