package cpu

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/ir"
)

// Backend returns the device behind the interface that all chips share. Closing it leaves the device's
// threads to their owner.
func (d *Device) Backend() backend.Backend { return host{d} }

type host struct{ d *Device }

func (h host) Name() string { return fmt.Sprintf("cpu, %d thread(s)", h.d.Threads()) }

func (h host) Compile(f *ir.Func, o Options) (backend.Executable, error) {
	e, err := h.d.Compile(f, o)
	if err != nil {
		return nil, err
	}
	donated, err := donatedOf(f, o)
	return &hostExecutable{e: e, donated: donated}, err
}

// Put shares nothing with a: the caller may continue to change it.
func (h host) Put(a array.Array) (backend.Buffer, error) { return &memory{a: a.Clone()}, nil }

func (h host) Close() error { return nil }

// memory is a buffer of the host. It is empty after it was donated or freed.
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
	e       *Executable
	donated []bool
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
		if i < len(e.donated) && e.donated[i] {
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
