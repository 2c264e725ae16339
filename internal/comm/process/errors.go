package process

import (
	"context"
	"errors"
	"strings"

	"github.com/galley-ml/galley/internal/comm"
)

// Errors are sent as their text and, for those of package comm and of contexts, their type.
const (
	textError byte = iota
	peerError
	panicError
	mismatchError
	deadlockError
	canceledError
	deadlineError
)

// remoteError is an error from another process.
type remoteError struct {
	text string
	is   error // a cause that is known here; nil if there is none
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

func appendError(b []byte, err error) []byte {
	switch e := err.(type) {
	case *comm.PeerError:
		return appendError(appendCount(append(b, peerError), e.Rank), e.Err)
	case *comm.PanicError:
		return appendString(appendString(append(b, panicError), e.Error()), e.Stack)
	case *comm.MismatchError:
		return appendSides(appendString(append(b, mismatchError), e.What), e.Sides[:])
	case *comm.DeadlockError:
		return appendSides(append(b, deadlockError), e.Sides)
	}
	kind := textError
	switch {
	case errors.Is(err, context.Canceled):
		kind = canceledError
	case errors.Is(err, context.DeadlineExceeded):
		kind = deadlineError
	}
	return appendString(append(b, kind), err.Error())
}

func appendSides(b []byte, sides []comm.Side) []byte {
	b = appendCount(b, len(sides))
	for _, s := range sides {
		b = appendRanks(appendString(appendCount(b, s.Rank), s.Call), s.Waits)
	}
	return b
}

// errorDepth is how deeply errors may be nested.
const errorDepth = 4

// error reads what appendError wrote; ranks are below size.
func (r *reader) error(size, depth int) error {
	kind := r.byte()
	switch {
	case r.bad || depth == errorDepth:
		r.bad = true
		return nil
	case kind == peerError:
		return &comm.PeerError{Rank: r.count(size - 1), Err: r.error(size, depth+1)}
	case kind == panicError:
		return &comm.PanicError{Value: remotePanic(r.string()), Stack: []byte(r.string())}
	case kind == mismatchError:
		e := &comm.MismatchError{What: r.string()}
		copy(e.Sides[:], r.sides(size))
		return e
	case kind == deadlockError:
		return &comm.DeadlockError{Sides: r.sides(size)}
	case kind == canceledError:
		return &remoteError{r.string(), context.Canceled}
	case kind == deadlineError:
		return &remoteError{r.string(), context.DeadlineExceeded}
	}
	return &remoteError{text: r.string()}
}

// remotePanic returns the value of a panic of another process, as text without PanicError's prefix.
func remotePanic(text string) any {
	const prefix = "panic: "
	if len(text) >= len(prefix) && text[:len(prefix)] == prefix {
		return text[len(prefix):]
	}
	return text
}

func (r *reader) sides(size int) []comm.Side {
	sides := make([]comm.Side, r.length())
	for i := range sides {
		sides[i] = comm.Side{Rank: r.count(size - 1), Call: r.string(), Waits: r.ranks(size)}
		if len(sides[i].Waits) == 0 {
			sides[i].Waits = nil
		}
	}
	return sides
}

// lostText is in the errors of lost processes. Errors are sent between processes as texts, so they are
// recognized by it.
const lostText = "is lost"

// IsLost reports whether an error means that another process is lost, found here or elsewhere.
func IsLost(err error) bool {
	_, left := errors.AsType[*LeftError](err)
	text := err.Error()
	return left && text == "" || strings.Contains(text, lostText) || strings.Contains(text, unreportedText)
}

// unreportedText reports a process that ended without sending its error.
const unreportedText = "ended after a failure that no process told of"
