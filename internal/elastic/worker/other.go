//go:build !(linux || darwin)

package worker

import (
	"syscall"

	"github.com/galley-ml/galley/internal/checkpoint"
)

// Agree is how the processes of a job agree on the largest of small numbers.
type Agree func(n int) (int, error)

// Worker is this process as part of an elastic job: there are none here.
type Worker struct{ Env }

// Join returns nil: no agent starts processes here.
func Join(int) *Worker { return nil }

// Tell tells nobody.
func (*Worker) Tell(Report) {}

// End tells nobody.
func (*Worker) End(error, bool, bool) {}

// Stopping is false.
func (*Worker) Stopping() bool { return false }

// Due is false.
func (*Worker) Due(int64, bool) bool { return false }

// Fits is always so.
func (*Worker) Fits(int64) error { return nil }

// Save keeps nothing.
func (*Worker) Save(checkpoint.State, func() checkpoint.Places, Agree, bool) error {
	return nil
}

// OnSignal hears of none.
func (*Worker) OnSignal(func(syscall.Signal)) {}

// HandOn does nothing.
func (*Worker) HandOn() {}

// Taken returns none.
func (*Worker) Taken() Taken { return Taken{} }
