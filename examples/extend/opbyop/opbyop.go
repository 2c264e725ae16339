// Package opbyop is a backend of another module than Galley's: it runs a program one op after the other with
// the host's kernels, each result in memory of its own. A chip would compile the program instead; its text
// for XLA and the like is backend.StableHLO.
package opbyop

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/op"
)

// Open returns the backend.
func Open() backend.Backend { return &device{} }

type device struct{}

func (*device) Name() string { return "op by op" }
func (*device) Close() error { return nil }

func (d *device) Put(a array.Array) (backend.Buffer, error) { return &buffer{d, a.Clone()}, nil }

func (d *device) Compile(p *backend.Program, o backend.Options) (backend.Executable, error) {
	e := &executable{device: d, program: p, donated: map[int]bool{}}
	e.own = len(p.Params()) - len(p.Captures())
	for _, i := range o.Donate {
		if i < 0 || i >= e.own {
			return nil, fmt.Errorf("compile %s: donated parameter %d: it has %d", p.Name(), i, e.own)
		}
		e.donated[i] = true
	}
	for _, v := range p.Captures() {
		a, ok := v.Store().(array.Array)
		if !ok {
			return nil, fmt.Errorf("compile %s: captured tensor %v has no data on the host", p.Name(), v.Type())
		}
		e.captured = append(e.captured, a)
	}
	return e, nil
}

// executable is a program with what it captures.
type executable struct {
	device   *device
	program  *backend.Program
	own      int // parameters that a run is given
	donated  map[int]bool
	captured []array.Array
}

func (e *executable) Run(args []backend.Buffer) ([]backend.Buffer, error) {
	p := e.program
	if len(args) != e.own {
		return nil, fmt.Errorf("run %s: want %d arguments: got %d", p.Name(), e.own, len(args))
	}
	values := make([]array.Array, p.NumValues())
	for i, v := range p.Params()[e.own:] {
		values[v.ID()] = e.captured[i]
	}
	for i, v := range p.Params()[:e.own] {
		b, ok := args[i].(*buffer)
		if !ok || b.device != e.device || !b.a.IsValid() || !b.Type().Equal(v.Type()) {
			return nil, fmt.Errorf("run %s: argument %d is gone, lies elsewhere or is no %v", p.Name(), i, v.Type())
		}
		values[v.ID()] = b.a
	}
	for i, b := range args {
		if e.donated[i] {
			b.Free()
		}
	}
	for _, n := range p.Nodes() {
		in, out := make([]array.Array, len(n.In())), make([]array.Array, len(n.Out()))
		for i, v := range n.In() {
			in[i] = values[v.ID()]
		}
		for i, v := range n.Out() {
			out[i] = array.New(v.DType(), v.Shape()...)
			values[v.ID()] = out[i]
		}
		op.Run(&op.Env{}, n.Op().(op.Op), in, out)
	}
	var results []backend.Buffer
	for _, v := range p.Results() {
		results = append(results, &buffer{e.device, values[v.ID()].Clone()})
	}
	return results, nil
}

// Memory counts what goes in and out, and all that is made between.
func (e *executable) Memory() backend.Memory {
	var m backend.Memory
	for _, v := range e.program.Params() {
		m.Params += v.Type().Bytes()
	}
	for _, v := range e.program.Results() {
		m.Results += v.Type().Bytes()
	}
	for _, n := range e.program.Nodes() {
		for _, v := range n.Out() {
			m.Arena += v.Type().Bytes()
		}
	}
	return m
}

func (*executable) Close() error { return nil }

// buffer is an array of the device; it is empty after it was donated or freed.
type buffer struct {
	device *device
	a      array.Array
}

func (b *buffer) Type() backend.Type { return backend.Type{DType: b.a.DType(), Shape: b.a.Shape()} }
func (b *buffer) Free()              { b.a = array.Array{} }

func (b *buffer) Read() (array.Array, error) {
	if !b.a.IsValid() {
		return array.Array{}, errors.New("buffer: it was donated or freed")
	}
	return b.a.Clone(), nil
}
