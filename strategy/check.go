package strategy

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/internal/pipeline"
)

// Pipeline returns the pipeline schedule, built by name or parsed from text.
func (s Strategy) Pipeline() (*pipeline.Schedule, error) {
	if s.OwnSchedule() {
		p, err := pipeline.Parse(s.Schedule)
		if err != nil {
			return nil, err
		}
		if len(p.Ranks) != s.PP || p.Micros != s.Micro {
			return nil, fmt.Errorf("schedule: it has %d ranks and %d micro-batches: got pp=%d and micro=%d: want "+
				"pp=%[1]d and micro=%[2]d", len(p.Ranks), p.Micros, s.PP, s.Micro)
		}
		return p, nil
	}
	name := s.Schedule
	if s.PP == 1 {
		name = pipeline.Default(1).Name // one rank needs no schedule
	}
	return pipeline.Generate(name, pipeline.Config{Ranks: s.PP, Micros: s.Micro, Chunks: s.VPP})
}

// Idle returns an error if a setting needs a mesh axis that the strategy does not have, so that it would have
// no effect.
func (s Strategy) Idle() error {
	switch {
	case s.Zero > 0 && s.DP*s.CP == 1:
		return fmt.Errorf("strategy: zero=%d shards state over dp, ep and cp, which have one device: want dp=2 "+
			"or more, or zero=0", s.Zero)
	case s.Sequence && s.TP == 1:
		return errors.New("strategy: sequence parallelism splits over tp, which has one device: want tp=2 or " +
			"more, or no sp")
	case s.VPP > 1 && s.PP == 1:
		return fmt.Errorf("strategy: vpp=%d is the stages per rank of pp, which has one rank: want pp=2 or more, "+
			"or vpp=1", s.VPP)
	}
	return nil
}

// Check returns what is wrong with the strategy by itself, before a model is known, such as degrees that do
// not divide or a schedule that deadlocks.
func (s Strategy) Check() error {
	s, err := s.WithDefaults()
	if err != nil {
		return err
	}
	if err := s.Idle(); err != nil {
		return err
	}
	p, err := s.Pipeline()
	if err != nil {
		return err
	}
	_, err = pipeline.Check(p)
	return err
}
