package strategy

import (
	"fmt"

	"github.com/galley-ml/galley/internal/pipeline"
)

// Micros returns the number of micro-batches of a step with the given batch size; 0 if the batch does not
// divide evenly.
func (s Strategy) Micros(batch int) int {
	n, dp := s.Micro, s.replicas()
	switch {
	case s.MicroBatch > 0:
		n = batch / (dp * s.MicroBatch)
		if s.Micro != 0 && s.Micro != n || n*dp*s.MicroBatch != batch {
			return 0
		}
	case n == 0:
		n = s.usualMicros()
	}
	if n < 1 || batch%(dp*n) != 0 {
		return 0
	}
	return n
}

// ForBatch returns the strategy as a trainer takes it for a batch size: with the number of micro-batches
// filled in if it was planned by their size.
func (s Strategy) ForBatch(batch int) (Strategy, error) {
	n := s.Micros(batch)
	if n == 0 {
		return s, fmt.Errorf("strategy: %s: %w", s.Line(), s.Uneven(batch))
	}
	s.Micro, s.MicroBatch = n, 0
	return s, nil
}

// Uneven explains why a batch does not divide evenly.
func (s Strategy) Uneven(batch int) error {
	s = s.Filled()
	if s.MicroBatch > 0 {
		return fmt.Errorf("a batch of %d does not divide into micro-batches of %d on %d replicas: want a "+
			"multiple of %d",
			batch, s.MicroBatch, s.DP, s.DP*s.MicroBatch*max(1, s.Micro))
	}
	n := s.Micro
	if n == 0 {
		n = s.usualMicros()
	}
	return fmt.Errorf("a batch of %d does not divide into %d micro-batches on %d replicas: want a "+
		"multiple of %d",
		batch, n, s.DP, n*s.DP)
}

// Sized is like Filled and sets both the number of micro-batches and their size for a batch. If the batch
// does not divide evenly, as Micros reports, the size is rounded down.
func (s Strategy) Sized(batch int) Strategy {
	s = s.Filled()
	if n := s.Micros(batch); n > 0 {
		s.Micro = n
	}
	if s.MicroBatch == 0 {
		if s.Micro == 0 {
			s.Micro = s.usualMicros()
		}
		s.MicroBatch = max(1, batch/max(1, s.DP*s.Micro))
	}
	return s
}

// usualMicros returns the default number of micro-batches: one per rank, or that of a schedule's text.
func (s Strategy) usualMicros() int {
	if s.OwnSchedule() {
		if p, err := pipeline.Parse(s.Schedule); err == nil {
			return p.Micros
		}
	}
	return max(s.PP, 1)
}
