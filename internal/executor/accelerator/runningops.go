package accelerator

import (
	"slices"
	"sync"

	"github.com/galley-ml/galley/internal/step"
)

// doing records the requests that a backend has not finished. It does not know their progress.
type doing struct {
	mu   sync.Mutex
	list []*string
}

// begin records an operation as running until end is called.
func (d *doing) begin(what string) (end func()) {
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

// runs records the program that the latest operation runs now.
func (d *doing) runs(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.list); n > 0 {
		*d.list[n-1] = name
	}
}

// RunningOps returns the programs that the devices have not finished.
func (r *Executor) RunningOps() []step.RunningOp {
	r.doing.mu.Lock()
	defer r.doing.mu.Unlock()
	var list []step.RunningOp
	for _, what := range r.doing.list {
		for device := range r.devices() {
			list = append(list, step.RunningOp{Device: device, Name: *what + " on " + r.b.Name()})
		}
	}
	return list
}
