//go:build !(linux || darwin)

package worker

import (
	"syscall"

	"github.com/galley-ml/galley/internal/checkpoint"
)

// Agree agrees between the processes of a job on the largest of small numbers.
type Agree func(n int) (int, error)

// Worker is this process as part of an elastic job, which this system does not support.
type Worker struct{ Env }

// Join returns nil, because no agent starts processes on this system.
func Join(int) *Worker { return nil }

// Report does nothing.
func (*Worker) Report(Report) {}

// End does nothing.
func (*Worker) End(error, bool, bool) {}

// Stopping returns false.
func (*Worker) Stopping() bool { return false }

// Due returns false.
func (*Worker) Due(int64, bool) bool { return false }

// Fits returns nil.
func (*Worker) Fits(int64) error { return nil }

// Save does nothing.
func (*Worker) Save(checkpoint.State, func() checkpoint.Places, Agree, bool) error {
	return nil
}

// OnSignal does nothing.
func (*Worker) OnSignal(func(syscall.Signal)) {}

// HandOn does nothing.
func (*Worker) HandOn() {}

// SnapshotStats returns nothing.
func (*Worker) SnapshotStats() SnapshotStats { return SnapshotStats{} }
