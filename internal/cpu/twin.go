package cpu

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// Twin returns the executable for another device: it shares the program and its plan, but not the memory, so
// that both may run at once.
func (e *Executable) Twin(d *Device) *Executable {
	return &Executable{f: e.f, device: d, plan: e.plan, watch: e.watch,
		arena: array.New(array.U8, e.plan.arena).Bytes()}
}

// MemoryOf returns the memory that runs of a program would need, without allocating it.
func MemoryOf(f *ir.Func, o Options) (Memory, error) {
	e, err := NewPlan(f, o)
	if err != nil {
		return Memory{}, err
	}
	return e.Memory(), nil
}
