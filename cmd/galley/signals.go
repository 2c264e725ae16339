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

// stoppedError is a run that a signal has ended, with all that it had to keep saved.
type stoppedError struct {
	signal syscall.Signal
	steps  int
}

func (e *stoppedError) Error() string {
	return fmt.Sprintf("stopped by %s after %d steps", signalName(e.signal), e.steps)
}

// code returns the exit code by which a shell knows what ended a process.
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

// interrupts is the signals that end a run: the first after the step that is being taken, the second at once.
type interrupts struct {
	context.Context
	cancel context.CancelFunc
	came   chan os.Signal
	mu     sync.Mutex
	first  syscall.Signal
	// patience ends the process if the step does not.
	patience *time.Timer
}

// patient is how long a step may continue after a signal at least; longer where steps take long.
const patient = 30 * time.Second

// catchSignals begins to catch signals. longest is how long a step has taken so far, busy what to say of one
// that does not end.
func catchSignals(longest func() time.Duration, busy func() string) *interrupts {
	s := &interrupts{came: make(chan os.Signal, 2)}
	s.Context, s.cancel = context.WithCancel(context.Background())
	if elastic != nil { // its agent gets them, and knows whether others go on
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

// heeded says that training has ended for a signal: what follows, such as saving, may take its time.
func (s *interrupts) heeded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.patience != nil {
		s.patience.Stop()
	}
}

// signal returns the one that came first; 0 is none.
func (s *interrupts) signal() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// agreed says that training ends for a signal, perhaps one that another process got.
func (s *interrupts) agreed(x syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == 0 {
		s.first = x
	}
	s.cancel()
}

// stop lets signals do again what they do.
func (s *interrupts) stop() {
	s.heeded()
	if elastic != nil {
		elastic.OnSignal(nil)
	}
	signal.Stop(s.came)
	close(s.came)
	s.cancel()
}
