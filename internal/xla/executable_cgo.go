//go:build cgo && linux

package xla

import (
	"crypto/sha256"
	"fmt"

	"github.com/gomlx/go-xla/pjrt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Executable is a compiled program with the tensors that its trace captured.
type Executable struct {
	d        *Device
	f        *ir.Func
	p        *pjrt.LoadedExecutable
	donated  []bool
	captured []*Buffer
	// given and kept are the numbers of the parameters that are donated and of those that are not.
	given, kept []int64
}

// Compile writes f as StableHLO and has the plugin compile it, unless it has seen the same text before. Captured tensors
// are bound now.
func (d *Device) Compile(f *ir.Func, o backend.Options) (backend.Executable, error) {
	e := &Executable{d: d, f: f, donated: make([]bool, len(f.Params()))}
	for _, i := range o.Donate {
		if own := len(f.Params()) - len(f.Captures()); i < 0 || i >= own {
			return nil, fmt.Errorf("compile %s: donated parameter %d: it has %d", f.Name(), i, own)
		}
		e.donated[i] = true
	}
	for i, donated := range e.donated {
		if donated {
			e.given = append(e.given, int64(i))
		} else {
			e.kept = append(e.kept, int64(i))
		}
	}
	text, err := op.Module(f, op.ModuleConfig{Config: hlo.Config{Target: d.target}, Donate: op.Donations(f, o.Donate)})
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", f.Name(), err)
	}
	if e.p, err = d.compile(f.Name(), text); err != nil {
		return nil, err
	}
	for _, src := range f.Captures() {
		a, ok := src.Store().(array.Array)
		if !ok {
			return nil, fmt.Errorf("compile %s: captured tensor %v has no data on the host", f.Name(), src.Type())
		}
		b, err := d.Put(a)
		if err != nil {
			return nil, err
		}
		e.captured = append(e.captured, b.(*Buffer))
	}
	return e, nil
}

func (d *Device) compile(name, text string) (*pjrt.LoadedExecutable, error) {
	key := sha256.Sum256([]byte(text))
	d.mu.Lock()
	p, closed := d.programs[key], d.closed
	if p == nil {
		p = &program{}
		d.programs[key] = p
	}
	d.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("xla: %s is closed", d.name)
	}
	p.once.Do(func() {
		if d.dump != nil {
			d.dump(name, text)
		}
		if p.exe, p.err = d.pjrt.Compile().WithStableHLO([]byte(text)).Done(); p.err != nil {
			p.err = fmt.Errorf("compile %s for %s: %w", name, d.name, brief(p.err))
		}
	})
	return p.exe, p.err
}

// Run starts the program and returns at once; the results can be given to the next run right away.
func (e *Executable) Run(args []backend.Buffer) ([]backend.Buffer, error) {
	in, err := e.bind(args)
	if err != nil {
		return nil, err
	}
	for i, b := range in {
		if e.donated[i] && b.gone.Swap(true) {
			return nil, fmt.Errorf("run %s: argument %d: it is donated twice", e.f.Name(), i)
		}
	}
	results := make([]*Buffer, len(e.f.Results()))
	out := make([]backend.Buffer, len(results))
	for i, v := range e.f.Results() {
		results[i] = pending(e.d, v.Type())
		results[i].by = e.f.Name()
		out[i] = results[i]
	}
	return out, e.d.submit(func() { e.run(in, results) })
}

// bind checks the arguments and adds the captured tensors.
func (e *Executable) bind(args []backend.Buffer) ([]*Buffer, error) {
	params := e.f.Params()
	if own := len(params) - len(e.captured); len(args) != own {
		return nil, fmt.Errorf("run %s: want %d arguments: got %d", e.f.Name(), own, len(args))
	}
	in := make([]*Buffer, 0, len(params))
	for i, a := range args {
		b, ok := a.(*Buffer)
		switch {
		case !ok || b.d != e.d:
			return nil, fmt.Errorf("run %s: argument %d %q: it lies on another backend", e.f.Name(), i, params[i].Name())
		case b.gone.Load():
			return nil, fmt.Errorf("run %s: argument %d %q: %w", e.f.Name(), i, params[i].Name(), errGone)
		case !b.t.Equal(params[i].Type()):
			return nil, fmt.Errorf("run %s: argument %d %q: got %v, want %v", e.f.Name(), i, params[i].Name(), b.t, params[i].Type())
		}
		in = append(in, b)
	}
	return append(in, e.captured...), nil
}

// run starts the program on the device's goroutine. An argument that could not be made is what is wrong with the results, too.
func (e *Executable) run(in, results []*Buffer) {
	out, err := e.execute(in)
	for i, r := range results {
		if err != nil {
			r.set(nil, err)
		} else {
			r.set(out[i], nil)
		}
	}
}

func (e *Executable) execute(in []*Buffer) ([]handle, error) {
	args := make([]handle, len(in))
	for i, b := range in {
		<-b.done
		if b.err != nil {
			return nil, b.err
		}
		args[i] = b.b
	}
	out := make([]handle, len(e.f.Results()))
	if err := e.d.engine.execute(executableHandle(e.p), args, e.kept, e.given, out); err != nil {
		return nil, fmt.Errorf("run %s on %s: %w", e.f.Name(), e.d.name, err)
	}
	return out, nil
}

// Memory is what the plugin planned.
func (e *Executable) Memory() backend.Memory {
	m := e.p.OnDeviceMemoryUsageStats
	return backend.Memory{Arena: int(m.Temporary), Params: int(m.Inputs), Results: int(m.Outputs - m.Aliases)}
}

// Close gives the captured tensors back; the program stays for the next that is equal.
func (e *Executable) Close() error {
	for _, b := range e.captured {
		b.Free()
	}
	return nil
}
