package cpu

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/ir"
)

// NewPlan returns an executable without a device and without memory: RunOver gets both.
func NewPlan(f *ir.Func, o Options) (*Executable, error) { return NewOffloadPlan(f, o, Offloaded{}) }

// RunOver is like Run on a device of a world in memory of the caller: Memory().Arena bytes, and an array for
// every result. Several such runs of one executable may overlap in time. A result that is left in a donated
// parameter's memory must be given that memory. Offloaded tensors have no array: they are read
// from and written to the store, which may be nil if there are none.
func (e *Executable) RunOver(d *Device, arena []byte, args, results []array.Array,
	store OffloadStore) error {
	all, err := e.bind(args)
	if err != nil {
		return err
	}
	if len(results) != len(e.f.Results()) || len(arena) < e.plan.arena {
		return fmt.Errorf("run %s: memory for %d results and %d bytes: want %d and %d", e.f.Name(), len(results),
			len(arena), len(e.f.Results()), e.plan.arena)
	}
	given, err := e.given(results)
	if err != nil {
		return err
	}
	r := &run{e: e, env: d.env(), arena: arena, params: all, results: given, watch: d.watch, device: d,
		progress: comm.Progress(d.comm)}
	if len(e.plan.transfers.params)+len(e.plan.transfers.results) > 0 {
		if store == nil {
			return fmt.Errorf("run %s: it has offloaded tensors and no store for them", e.f.Name())
		}
		r.offloader = &offloader{r: r, store: store, inFlight: map[int]chan error{}}
		defer r.offloader.end()
	}
	if err := r.all(); err != nil {
		return err
	}
	for i, v := range e.f.Results() {
		if e.plan.transfers.results[i] {
			continue
		}
		if src, dst := r.array(v).Bytes(), results[i].Bytes(); len(src) > 0 && &src[0] != &dst[0] {
			copy(dst, src)
		}
	}
	return nil
}

// MayShare reports whether a result may be written to the memory of a parameter: it is left there anyway, or
// it is written after the last read of the parameter.
func (e *Executable) MayShare(result, param int) bool {
	if e.plan.taken[param] == result {
		return true
	}
	at := e.plan.resultOf[result]
	return at.home == homeResult && at.index == result && at.first > e.plan.places[e.f.Params()[param].ID()].last
}

// Overwrites reports whether a run writes a result to the memory of a parameter.
func (e *Executable) Overwrites(result, param int) bool { return e.plan.taken[param] == result }

// Returns reports whether a result is an unchanged parameter.
func (e *Executable) Returns(result, param int) bool {
	return e.f.Results()[result] == e.f.Params()[param]
}
