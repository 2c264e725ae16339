package galley

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/pass"
)

// Needs is the bytes of the host's memory that training on batches of these types takes besides the parameters' first values, on all
// in-process devices together. Nothing is run or taken. A step that runs op by op is not planned: it is told as 0.
func (t *Trainer) Needs(batch ...Type) (bytes int, err error) {
	defer recoverBug("memory of a step", &err)
	switch {
	case t.remote != nil:
		return 0, fmt.Errorf("needs: %s plans its own memory", t.remote.b.Name())
	case t.many != nil:
		s, err := t.many.planned(batch)
		if err != nil {
			return 0, err
		}
		for d := range s.Devices() {
			bytes += s.Memory(d).Peak()
		}
		return bytes, nil
	case t.c.Mode == Eager:
		return 0, nil
	}
	p, err := TraceStep(t.c, batch...)
	if err == nil {
		p, err = pass.Optimize(p)
	}
	if err == nil {
		p, err = pass.Fuse(p)
	}
	if err != nil {
		return 0, err
	}
	m, err := cpu.MemoryOf(p, Options{Donate: upTo(0, len(t.c.Params)+len(t.slots))})
	for _, p := range t.c.Params {
		bytes -= p.Type.Bytes()
	}
	return bytes + m.Peak(), err
}
