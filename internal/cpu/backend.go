package cpu

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/ir"
)

// Backend returns the device as a backend.Backend. Closing it does not stop the device's
// threads.
func (d *Device) Backend() backend.Backend { return host{d} }

type host struct{ d *Device }

func (h host) Name() string { return fmt.Sprintf("cpu, %d thread(s)", h.d.Threads()) }

func (h host) Compile(f *ir.Func, o Options) (backend.Executable, error) {
	e, err := h.d.Compile(f, o)
	if err != nil {
		return nil, err
	}
	given, err := donatedOf(f, o)
	for _, i := range o.Spend {
		given[i] = true
	}
	return &hostExecutable{e: e, given: given}, err
}

// Put copies a: the caller may change it afterwards.
func (h host) Put(a array.Array) (backend.Buffer, error) { return &memory{a: a.Clone()}, nil }

func (h host) Close() error { return nil }

// memory is a host buffer. It is empty after it was donated or freed.
type memory struct{ a array.Array }

func (m *memory) Type() ir.Type { return ir.TypeOf(m.a) }

func (m *memory) Read() (array.Array, error) {
	if !m.a.IsValid() {
		return array.Array{}, fmt.Errorf("buffer: it was donated or freed")
	}
	return m.a.Clone(), nil
}

func (m *memory) Free() { m.a = array.Array{} }

type hostExecutable struct {
	e     *Executable
	given []bool // by argument: it was donated or spent
}

func (e *hostExecutable) Run(args []backend.Buffer) ([]backend.Buffer, error) {
	arrays := make([]array.Array, len(args))
	for i, b := range args {
		m, ok := b.(*memory)
		if !ok || !m.a.IsValid() {
			return nil, fmt.Errorf("run %s: argument %d: it was donated or freed, or is on another backend",
				e.e.f.Name(), i)
		}
		arrays[i] = m.a
	}
	for i, b := range args {
		if i < len(e.given) && e.given[i] {
			b.Free()
		}
	}
	results, err := e.e.Run(arrays)
	if err != nil {
		return nil, err
	}
	out := make([]backend.Buffer, len(results))
	for i, a := range results {
		out[i] = &memory{a}
	}
	return out, nil
}

func (e *hostExecutable) Memory() Memory { return e.e.Memory() }

func (e *hostExecutable) Close() error { return nil }
