package comm

import (
	"fmt"
	"strings"
)

// PeerError is the failure of one rank's worker, as its peers and the caller of Run see it.
type PeerError struct {
	Rank int
	Err  error
}

// Error prints the rank and what happened to it.
func (e *PeerError) Error() string { return fmt.Sprintf("rank %d: %v", e.Rank, e.Err) }

// Unwrap returns the worker's own error.
func (e *PeerError) Unwrap() error { return e.Err }

// PanicError is a panic of a worker.
type PanicError struct {
	Value any
	// Stack is the worker's stack at the panic.
	Stack []byte
}

// Error prints the value that was panicked with.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value that was panicked with, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Side describes what one rank was doing when an error was found.
type Side struct {
	Rank int
	// Call is the signature of the call that the rank is in; "" if its worker has returned.
	Call string
	// Waits are the ranks that the call waits for.
	Waits []int
}

// String prints the side as errors do: rank 2 is in all_gather #7 f32[4,8] dim 0 of group [0 1 2 3].
func (s Side) String() string {
	var b strings.Builder
	if s.Call == "" {
		fmt.Fprintf(&b, "rank %d has finished", s.Rank)
		return b.String()
	}
	fmt.Fprintf(&b, "rank %d is in %s", s.Rank, s.Call)
	switch len(s.Waits) {
	case 0:
	case 1:
		fmt.Fprintf(&b, " and waits for rank %d", s.Waits[0])
	default:
		fmt.Fprintf(&b, " and waits for ranks %v", s.Waits)
	}
	return b.String()
}

// MismatchError reports two ranks whose calls belong to one collective but do not match.
type MismatchError struct {
	// What names what does not match: kinds, shapes, dtypes …
	What string
	// Sides are the two ranks, the later one first.
	Sides [2]Side
}

// Error names both sides.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("collective: %s: %v, %v", e.What, e.Sides[0], e.Sides[1])
}

// DeadlockError reports ranks that wait for each other, or for one that has finished, and so never continue.
type DeadlockError struct {
	// Sides are the ranks of the deadlock, each waiting for the next and the last for the first, then all other
	// ranks that wait.
	Sides []Side
}

// sidesPrinted limits the length of the error in a large world; the ranks of the deadlock are printed first.
const sidesPrinted = 8

// Error prints which rank waits for which.
func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString("deadlock: ")
	for i, s := range e.Sides {
		if i == sidesPrinted {
			fmt.Fprintf(&b, "; and %d more", len(e.Sides)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(s.String())
	}
	return b.String()
}
