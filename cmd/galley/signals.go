package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// stoppedError means that a signal has ended the run, after everything was saved.
type stoppedError struct {
	signal syscall.Signal
	steps  int
}

func (e *stoppedError) Error() string {
	return fmt.Sprintf("stopped by %s after %d steps", signalName(e.signal), e.steps)
}

// code returns the exit code by which a shell knows the signal that ended a process.
func (e *stoppedError) code() int { return 128 + int(e.signal) }

func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return s.String()
}

// interrupts handles the signals that end a run: the first one after the current step, the second at once.
type interrupts struct {
	context.Context
	cancel context.CancelFunc
	came   chan os.Signal
	mu     sync.Mutex
	first  syscall.Signal
	// patience ends the process if the current step does not end.
	patience *time.Timer
}

// patient is how long a step may continue after a signal at least; more if steps take long.
const patient = 30 * time.Second

// catchSignals starts to catch signals. longest returns the longest time of a step so far, busy describes a
// step that does not end.
func catchSignals(longest func() time.Duration, busy func() string) *interrupts {
	s := &interrupts{came: make(chan os.Signal, 2)}
	s.Context, s.cancel = context.WithCancel(context.Background())
	if elastic != nil { // its agent receives them, and knows whether other hosts continue
		elastic.OnSignal(func(x syscall.Signal) { s.got(x, longest, busy) })
		return s
	}
	signal.Notify(s.came, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for x := range s.came {
			s.got(x.(syscall.Signal), longest, busy)
		}
	}()
	return s
}

func (s *interrupts) got(x syscall.Signal, longest func() time.Duration, busy func() string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first != 0 {
		fmt.Fprintf(os.Stderr, "galley: %s again: ended at once, without saving\n", signalName(x))
		os.Exit(128 + int(x))
	}
	s.first = x
	s.cancel()
	wait := max(patient, 10*longest())
	s.patience = time.AfterFunc(wait, func() {
		fmt.Fprintf(os.Stderr, "galley: %s: the step has not ended for %v%s: ended without saving\n",
			signalName(x), wait, busy())
		os.Exit(128 + int(x))
	})
}

// stopLimit stops the time limit, because training has ended for the signal: saving may take longer.
func (s *interrupts) stopLimit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.patience != nil {
		s.patience.Stop()
	}
}

// signal returns the first signal that arrived; 0 is none.
func (s *interrupts) signal() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// agreed ends training because of a signal, perhaps one that another process received.
func (s *interrupts) agreed(x syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == 0 {
		s.first = x
	}
	s.cancel()
}

// stop restores the default handling of signals.
func (s *interrupts) stop() {
	s.stopLimit()
	if elastic != nil {
		elastic.OnSignal(nil)
	}
	signal.Stop(s.came)
	close(s.came)
	s.cancel()
}
