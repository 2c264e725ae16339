package accelerator

import (
	"slices"
	"sync"

	"github.com/galley-ml/galley/internal/step"
)

// doing is what a backend was asked for and has not answered. It does not tell what of a program it is at.
type doing struct {
	mu   sync.Mutex
	list []*string
}

// begin notes something that is under way until end is called.
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

// runs notes which program what was begun last has come to.
func (d *doing) runs(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.list); n > 0 {
		*d.list[n-1] = name
	}
}

// RunningOps returns the programs that the devices have not ended.
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
