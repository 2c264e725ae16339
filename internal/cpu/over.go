package cpu

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// NewPlan returns an executable without a device and without memory: RunOver brings both.
func NewPlan(f *ir.Func, o Options) (*Executable, error) { return NewPlanAway(f, o, Away{}) }

// RunOver is like Run on a device of a world in memory that the caller lends: Memory().Arena bytes, and an
// array for every result. Several such runs of one executable may continue at once. A result that is left in
// a donated parameter's memory must be given that memory. What is away has no array, and is asked of
// elsewhere.
func (e *Executable) RunOver(d *Device, arena []byte, args, results []array.Array,
	elsewhere Elsewhere) error {
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
	r := &run{e: e, env: d.env(), arena: arena, params: all, results: given, watch: d.watch, device: d}
	if len(e.plan.visits.params)+len(e.plan.visits.results) > 0 {
		if elsewhere == nil {
			return fmt.Errorf("run %s: parts of it are away: want where they are", e.f.Name())
		}
		r.visitor = &visitor{r: r, elsewhere: elsewhere, coming: map[int]chan error{}}
		defer r.visitor.end()
	}
	if err := r.all(); err != nil {
		return err
	}
	for i, v := range e.f.Results() {
		if e.plan.visits.results[i] {
			continue
		}
		if src, dst := r.array(v).Bytes(), results[i].Bytes(); len(src) > 0 && &src[0] != &dst[0] {
			copy(dst, src)
		}
	}
	return nil
}

// MayShare reports whether a result may be written to the memory of a parameter: it is left there anyway, or
// it is written when nothing reads the parameter any more.
func (e *Executable) MayShare(result, param int) bool {
	if e.plan.taken[param] == result {
		return true
	}
	at := e.plan.resultOf[result]
	return at.home == homeResult && at.index == result && at.first > e.plan.places[e.f.Params()[param].ID()].last
}

// Overwrites reports whether a run puts a result into the memory of a parameter.
func (e *Executable) Overwrites(result, param int) bool { return e.plan.taken[param] == result }

// Returns reports whether a result is a parameter as it was given.
func (e *Executable) Returns(result, param int) bool {
	return e.f.Results()[result] == e.f.Params()[param]
}
