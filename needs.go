package galley

import "github.com/galley-ml/galley/internal/fault"

// Needs is the bytes of the host's memory that training on batches of these types takes besides the
// parameters' first values, on all in-process devices together. Nothing is run or taken. A step that runs op
// by op, or on a backend, is not planned: it is told as 0.
func (t *Trainer) Needs(batch ...Type) (bytes int, err error) {
	defer fault.Recover("memory of a step", &err)
	if t.c.Backend != nil || t.c.Mode == Eager && t.c.Strategy == nil {
		return 0, nil
	}
	p, err := t.exec.Plan(batch...)
	if err != nil {
		return 0, err
	}
	for _, d := range p.Devices {
		bytes += d.Memory.Peak()
	}
	if p.Step.Whole { // one device has the parameters' first values for its own
		for _, x := range t.c.Params {
			bytes -= x.Type.Bytes()
		}
	}
	return bytes, nil
}
