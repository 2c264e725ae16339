package accelerator

import (
	"slices"
	"sync"

	"github.com/galley-ml/galley/internal/step"
)

// inFlight records the requests that a backend has not finished. It does not know their progress.
type inFlight struct {
	mu   sync.Mutex
	list []*string
}

// begin records an operation as running until end is called.
func (d *inFlight) begin(what string) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := &what
	d.list = append(d.list, at)
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.list = slices.DeleteFunc(d.list, func(p *string) bool { return p == at })
	})
}

// setProgram records the program that the latest operation runs now.
func (d *inFlight) setProgram(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.list); n > 0 {
		*d.list[n-1] = name
	}
}

// RunningOps returns the programs that the devices have not finished.
func (r *Executor) RunningOps() []step.RunningOp {
	r.inFlight.mu.Lock()
	defer r.inFlight.mu.Unlock()
	var list []step.RunningOp
	for _, what := range r.inFlight.list {
		for device := range r.devices() {
			list = append(list, step.RunningOp{Device: device, Name: *what + " on " + r.b.Name()})
		}
	}
	return list
}
