package cpu

import (
	"fmt"
	"sync"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Options are the options of compilation.
type Options = backend.Options

// Executable is a program with its memory planned. One run at a time uses its arena.
type Executable struct {
	f      *ir.Func
	device *Device
	plan   *plan
	mu     sync.Mutex
	arena  []byte
	watch  func(n *ir.Node, took time.Duration)
	pieces pieces
}

// Compile plans f's memory on d. Captured tensors are bound now.
func (d *Device) Compile(f *ir.Func, o Options) (*Executable, error) {
	e, err := NewPlan(f, o)
	if err != nil {
		return nil, err
	}
	e.device, e.arena = d, array.New(array.U8, e.plan.arena).Bytes()
	return e, nil
}

// donatedOf returns which parameters of f are donated.
func donatedOf(f *ir.Func, o Options) ([]bool, error) {
	donated := make([]bool, len(f.Params()))
	for _, i := range o.Donate {
		if i < 0 || i >= len(f.Params())-len(f.Captures()) {
			return nil, fmt.Errorf("compile %s: donated parameter %d: it has %d", f.Name(), i, len(f.Params()))
		}
		donated[i] = true
	}
	return donated, nil
}

// checkSpent returns an error for spent parameters that do not exist, or that are also donated.
func checkSpent(f *ir.Func, o Options, donated []bool) error {
	for _, i := range o.Spend {
		if i < 0 || i >= len(f.Params())-len(f.Captures()) || donated[i] {
			return fmt.Errorf("compile %s: spent parameter %d: want one of %d that is not donated", f.Name(), i,
				len(f.Params()))
		}
	}
	return nil
}

// Memory is the memory of a run, in bytes.
type Memory = backend.Memory

// Memory returns the program's planned memory: what its runs allocate.
func (e *Executable) Memory() Memory {
	m := Memory{Arena: e.plan.arena}
	for _, p := range e.f.Params() {
		m.Params += p.Type().Bytes()
	}
	seen := map[*place]bool{}
	for _, at := range e.plan.resultOf {
		if at.home == homeResult && !seen[at] {
			seen[at] = true
			m.Results += at.bytes
		}
	}
	return m
}

// Func returns the program.
func (e *Executable) Func() *ir.Func { return e.f }

// Run computes the results for args, the parameters without the captured ones. Donated args must not be used
// afterwards, even if it fails.
func (e *Executable) Run(args []array.Array) ([]array.Array, error) { return e.RunInto(args, nil) }

// RunInto is like Run with memory for the results: a valid array in into, of a result's type, receives that
// result. A result that is an argument, or shares its memory with an earlier result, is not written but
// returned.
func (e *Executable) RunInto(args, into []array.Array) ([]array.Array, error) {
	return e.run(e.device.env(), args, into)
}

// RunIn is like Run in a world, with c as this device's Comm: programs with collectives need it.
func (e *Executable) RunIn(c comm.Comm, args []array.Array) ([]array.Array, error) {
	env := e.device.env()
	env.Comm = c
	return e.run(env, args, nil)
}

func (e *Executable) run(env *op.Env, args, into []array.Array) ([]array.Array, error) {
	all, err := e.bind(args)
	if err != nil {
		return nil, err
	}
	given, err := e.given(into)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &run{e: e, env: env, arena: e.arena, params: all, results: given, watch: e.watch, device: e.device}
	if err := r.all(); err != nil {
		return nil, err
	}
	return r.collect(), nil
}

// bind checks the arguments' types and adds the captured tensors.
func (e *Executable) bind(args []array.Array) ([]array.Array, error) {
	params := e.f.Params()
	own := len(params) - len(e.f.Captures())
	if len(args) != own {
		return nil, fmt.Errorf("run %s: want %d arguments: got %d", e.f.Name(), own, len(args))
	}
	all := make([]array.Array, len(params))
	copy(all, args)
	for i, src := range e.f.Captures() {
		a, err := Read(src)
		if err != nil {
			return nil, err
		}
		all[own+i] = a
	}
	for i, a := range all {
		if e.plan.transfers.params[i] {
			continue
		}
		if t := ir.TypeOf(a); !t.Equal(params[i].Type()) {
			return nil, fmt.Errorf("run %s: argument %d %q: got %v, want %v", e.f.Name(), i, params[i].Name(), t,
				params[i].Type())
		}
	}
	return all, nil
}

// given returns the caller's memory for results by place.
func (e *Executable) given(into []array.Array) (map[*place][]byte, error) {
	memory := map[*place][]byte{}
	for i, a := range into {
		if i >= len(e.f.Results()) {
			return nil, fmt.Errorf("run %s: memory for %d results: it has %d", e.f.Name(), len(into),
				len(e.f.Results()))
		}
		if !a.IsValid() {
			continue
		}
		if want := e.f.Results()[i].Type(); !ir.TypeOf(a).Equal(want) {
			return nil, fmt.Errorf("run %s: memory for result %d: got %v, want %v", e.f.Name(), i, ir.TypeOf(a), want)
		}
		if at := e.plan.resultOf[i]; at.home == homeResult && at.index == i {
			memory[at] = a.Bytes()
		}
	}
	return memory, nil
}

// run is one execution.
type run struct {
	e       *Executable
	env     *op.Env
	arena   []byte
	params  []array.Array
	results map[*place][]byte
	watch   func(n *ir.Node, took time.Duration)
	device  *Device
	// progress, if set, advances collectives in flight.
	progress func()
	// offloader, if set, fetches and writes offloaded tensors.
	offloader *offloader
}

// all runs every node.
func (r *run) all() error {
	defer fault.Pass("run", r.e.f)
	defer r.device.at.Store(nil)
	if r.device.detect {
		if err := r.checkArgs(); err != nil {
			return err
		}
	}
	if r.offloader != nil {
		r.offloader.fetch(0)
	}
	for i, n := range r.e.f.Nodes() {
		if err := r.transfer(i); err != nil {
			return err
		}
		r.device.at.Store(n)
		var start time.Time
		if r.watch != nil {
			start = time.Now()
		}
		r.env.Scratch = nil
		if at := r.e.plan.scratch[i]; at != nil {
			r.env.Scratch = r.bytes(at)
		}
		r.env.Pieces = r.piecesOf(i, n)
		err := r.node(n)
		if r.env.Pieces != nil {
			r.offloader.awaitPieces()
			r.offloader.fetch(i + 1)
		}
		if err != nil {
			if _, placed := err.(*ir.Error); placed {
				return err
			}
			return &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
		}
		if r.watch != nil {
			r.watch(n, time.Since(start))
		}
		if r.progress != nil {
			r.progress()
		}
	}
	return r.transfer(len(r.e.f.Nodes()))
}

// transfer fetches offloaded parameters for node i, and writes out results of the nodes before.
func (r *run) transfer(i int) error {
	if r.offloader == nil {
		return nil
	}
	return r.offloader.before(i)
}

func (r *run) node(n *ir.Node) (err error) {
	if _, ok := n.Op().(op.Aliaser); ok {
		return nil
	}
	defer recoverIndex(&err)
	in, out := make([]array.Array, len(n.In())), make([]array.Array, len(n.Out()))
	for i, v := range n.In() {
		in[i] = r.array(v)
	}
	for i, v := range n.Out() {
		out[i] = r.array(v)
	}
	if r.device.detect {
		return r.evalDetecting(n.Op().(op.Op), in, out)
	}
	op.Run(r.env, n.Op().(op.Op), in, out)
	return nil
}

// array returns v's memory in this run.
func (r *run) array(v *ir.Value) array.Array {
	at := r.e.plan.places[v.ID()]
	if at.home == homePieces {
		return array.Absent(v.DType(), v.Shape())
	}
	return array.View(v.DType(), v.Shape(), r.bytes(at))
}

func (r *run) bytes(at *place) []byte {
	switch at.home {
	case homeParam:
		return r.params[at.index].Bytes()
	case homeSpent:
		return r.params[at.index].Bytes()[at.offset : at.offset+at.bytes]
	case homeResult:
		b, ok := r.results[at]
		if !ok {
			b = array.New(array.U8, at.bytes).Bytes()
			r.results[at] = b
		}
		return b
	}
	return r.arena[at.offset : at.offset+at.bytes]
}

// collect returns the results; one that is in a parameter's memory is copied unless it was donated.
func (r *run) collect() []array.Array {
	out := make([]array.Array, len(r.e.f.Results()))
	for i, v := range r.e.f.Results() {
		at := r.e.plan.resultOf[i]
		out[i] = r.array(v)
		if at.home == homeParam && r.e.plan.taken[at.index] != i || at.home == homeResult && at.index != i {
			out[i] = out[i].Clone()
		}
	}
	return out
}
