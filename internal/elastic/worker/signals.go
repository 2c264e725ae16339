//go:build linux || darwin

package worker

import (
	"os/signal"
	"sync"
	"syscall"
)

// signals holds those that end a run. A service manager may send them to the workers as well as to their
// agent, but only the agent knows whether others continue: so workers ignore them and follow the agent.
type signals struct {
	mu   sync.Mutex
	came []syscall.Signal // received before OnSignal
	to   func(syscall.Signal)
}

func (s *signals) leaveToAgent() { signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) }

func (s *signals) got(x syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to == nil {
		s.came = append(s.came, x)
		return
	}
	s.to(x)
}

// OnSignal calls f for every signal that the agent forwards, including those received before.
func (w *Worker) OnSignal(f func(syscall.Signal)) {
	w.signal.mu.Lock()
	defer w.signal.mu.Unlock()
	w.signal.to = f
	if f == nil {
		return
	}
	for _, x := range w.signal.came {
		f(x)
	}
	w.signal.came = nil
}
