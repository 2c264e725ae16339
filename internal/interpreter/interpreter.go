package interpreter

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/hlo/interp"
	"github.com/galley-ml/galley/internal/ir"
)

// New returns a backend of n devices that takes StableHLO, as accelerators do, and computes what it means,
// slowly. What is done on several devices is tested on it where no machine has any.
func New(n int) backend.Backend {
	g := &interpreters{}
	for i := range n {
		g.devices = append(g.devices, &interpreter{g, i})
	}
	return g.devices[0].(*interpreter)
}

type interpreters struct{ devices []backend.Backend }

// interpreter is one device.
type interpreter struct {
	*interpreters
	number int
}

func (d *interpreter) Name() string               { return fmt.Sprintf("interpreter %d", d.number) }
func (d *interpreter) Devices() []backend.Backend { return d.devices }
func (d *interpreter) Close() error               { return nil }

func (d *interpreter) Put(a array.Array) (backend.Buffer, error) {
	return &held{a: a.Clone(), device: d}, nil
}

func (d *interpreter) Compile(f *ir.Func, o backend.Options) (backend.Executable, error) {
	return d.compile([]*ir.Func{f}, []backend.Backend{d}, o)
}

func (d *interpreter) CompileSPMD(fs []*ir.Func, o backend.Options) (backend.Executable, error) {
	if len(fs) == 0 || len(fs) > len(d.devices) {
		return nil, fmt.Errorf("compile: programs of %d devices: there are %d", len(fs), len(d.devices))
	}
	return d.compile(fs, d.devices[:len(fs)], o)
}

func (d *interpreter) compile(fs []*ir.Func, on []backend.Backend, o backend.Options) (backend.Executable,
	error) {
	e := &module{f: fs[0], on: on, donated: map[int]bool{}}
	own := len(e.f.Params()) - len(e.f.Captures())
	for _, i := range o.Donate {
		if i < 0 || i >= own {
			return nil, fmt.Errorf("compile %s: donated parameter %d: it has %d", e.f.Name(), i, own)
		}
		e.donated[i] = true
	}
	text, err := backend.StableHLO(o, fs...)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", e.f.Name(), err)
	}
	if e.program, err = hlo.Parse(text); err != nil {
		return nil, err
	}
	for _, v := range e.f.Captures() {
		a, ok := v.Store().(array.Array)
		if !ok {
			return nil, fmt.Errorf("compile %s: captured tensor %v has no data on the host", e.f.Name(), v.Type())
		}
		e.captured = append(e.captured, a)
	}
	return e, e.program.Verify()
}

// module is a program for the devices that it runs on.
type module struct {
	f        *ir.Func
	program  *hlo.Program
	on       []backend.Backend
	donated  map[int]bool
	captured []array.Array
}

func (e *module) Run(args []backend.Buffer) ([]backend.Buffer, error) {
	own := len(e.f.Params()) - len(e.captured)
	if len(args) != own*len(e.on) {
		return nil, fmt.Errorf("run %s: want %d arguments for each of %d device(s): got %d", e.f.Name(), own,
			len(e.on), len(args))
	}
	lists := make([][]array.Array, len(e.on))
	for k, b := range args {
		m, ok := b.(*held)
		if !ok || !m.a.IsValid() || m.device != e.on[k/own] {
			return nil, fmt.Errorf("run %s: argument %d: it was donated or freed, or lies elsewhere", e.f.Name(), k)
		}
		lists[k/own] = append(lists[k/own], m.a)
	}
	for i := range lists {
		lists[i] = append(lists[i], e.captured...)
	}
	for k, b := range args {
		if e.donated[k%own] {
			b.Free()
		}
	}
	results, err := interp.Run(e.program, lists)
	var out []backend.Buffer
	for i, list := range results {
		for _, a := range list {
			out = append(out, &held{a: a, device: e.on[i]})
		}
	}
	return out, err
}

// Memory counts the arrays that go in and out of one device.
func (e *module) Memory() backend.Memory {
	var m backend.Memory
	for _, v := range e.f.Params() {
		m.Params += v.Type().Bytes()
	}
	for _, v := range e.f.Results() {
		m.Results += v.Type().Bytes()
	}
	return m
}

func (e *module) Close() error { return nil }

// held is an array of one device. It is empty after it was donated or freed.
type held struct {
	a      array.Array
	device backend.Backend
}

func (m *held) Type() ir.Type { return ir.TypeOf(m.a) }
func (m *held) Free()         { m.a = array.Array{} }

func (m *held) Read() (array.Array, error) {
	if !m.a.IsValid() {
		return array.Array{}, errors.New("buffer: it was donated or freed")
	}
	return m.a.Clone(), nil
}
