//go:build cgo && linux

package xla

import (
	"errors"
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lower"
)

// Executable is a compiled program with the tensors that its trace captured.
type Executable struct {
	c *client
	// on lists the devices that run it, f is the first one's program.
	on      []*Device
	f       *ir.Func
	p       *program
	donated []bool
	// captured holds the captured tensors by device.
	captured [][]*Buffer
	// given and kept are the indices of the donated parameters and of the others.
	given, kept []int64
}

// newExecutable lowers the programs of devices to one module and compiles it, unless the same text was
// compiled before. Captured tensors are copied now.
func newExecutable(fs []*ir.Func, on []*Device, o backend.Options) (*Executable, error) {
	f, c := fs[0], on[0].client
	e := &Executable{c: c, on: on, f: f, donated: make([]bool, len(f.Params())),
		captured: make([][]*Buffer, len(on))}
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
	if err := c.opened(); err != nil {
		return nil, err
	}
	config := hlo.Config{Target: c.target, Products: c.products(), Replicas: len(on)}
	var err error
	if e.p, err = c.lower(fs, on, lower.ModuleConfig{Config: config, Donate: lower.Donations(f,
		o.Donate)}); err != nil {
		return nil, err
	}
	return e, e.capture()
}

// lower lowers programs to one module and compiles it. A plugin of another release may not accept our own
// kernels: if it rejects the module it is compiled again, first without product kernels, then without any of
// our own, and runs somewhat slower.
func (c *client) lower(fs []*ir.Func, on []*Device, config lower.ModuleConfig) (*program, error) {
	text, err := lower.SPMD(fs, config)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", fs[0].Name(), err)
	}
	p, err := c.compile(fs[0].Name(), text, on)
	fault, ok := errors.AsType[*PluginError](err)
	if ok && config.Products > 0 && strings.Contains(text, hlo.PTXTarget) {
		config.Products = 0
		return c.lower(fs, on, config)
	}
	if ok && !config.Plain && strings.Contains(text, hlo.KernelTarget) &&
		strings.Contains(strings.ToLower(fault.Full), "triton") {
		config.Plain = true
		return c.lower(fs, on, config)
	}
	return p, err
}

// capture copies the tensors that the trace captured to the devices.
func (e *Executable) capture() error {
	for _, src := range e.f.Captures() {
		a, ok := src.Store().(array.Array)
		if !ok {
			return fmt.Errorf("compile %s: captured tensor %v has no data on the host", e.f.Name(), src.Type())
		}
		for i, d := range e.on {
			b, err := d.Put(a)
			if err != nil {
				return err
			}
			e.captured[i] = append(e.captured[i], b.(*Buffer))
		}
	}
	return nil
}

// Run starts the program and returns at once; the results can be passed to the next run right away.
func (e *Executable) Run(args []backend.Buffer) ([]backend.Buffer, error) {
	in, err := e.bind(args)
	if err != nil {
		return nil, err
	}
	params := len(e.f.Params())
	for k, b := range in {
		if e.donated[k%params] && b.gone.Swap(true) {
			return nil, fmt.Errorf("run %s: argument %d: it is donated twice", e.f.Name(), k)
		}
	}
	var results []*Buffer
	var out []backend.Buffer
	for _, d := range e.on {
		for _, v := range e.f.Results() {
			b := pending(d, v.Type())
			b.by = e.f.Name()
			results, out = append(results, b), append(out, b)
		}
	}
	return out, e.c.submit(func() { e.run(in, results) })
}

// bind checks the arguments and adds the captured tensors: all those of the first device, then those of the
// next.
func (e *Executable) bind(args []backend.Buffer) ([]*Buffer, error) {
	params := e.f.Params()
	own := len(params) - len(e.f.Captures())
	if len(args) != own*len(e.on) {
		return nil, fmt.Errorf("run %s: want %d arguments: got %d", e.f.Name(), own*len(e.on), len(args))
	}
	in := make([]*Buffer, 0, len(params)*len(e.on))
	for i, d := range e.on {
		for k, a := range args[i*own : (i+1)*own] {
			b, ok := a.(*Buffer)
			switch {
			case !ok || b.d != d:
				return nil, fmt.Errorf("run %s: argument %d %q: it lies elsewhere: want it on %s", e.f.Name(), k,
					params[k].Name(), d.name)
			case b.gone.Load():
				return nil, fmt.Errorf("run %s: argument %d %q: %w", e.f.Name(), k, params[k].Name(), errGone)
			case !b.t.Equal(params[k].Type()):
				return nil, fmt.Errorf("run %s: argument %d %q: got %v, want %v", e.f.Name(), k, params[k].Name(), b.t,
					params[k].Type())
			}
			in = append(in, b)
		}
		in = append(in, e.captured[i]...)
	}
	return in, nil
}

// run starts the program on the client's goroutine. The error of an argument becomes the error of the
// results, too.
func (e *Executable) run(in, results []*Buffer) {
	out, err := e.execute(in)
	for _, r := range results {
		switch {
		case err != nil:
			r.set(nil, err)
		case !r.d.here:
			r.set(nil, nil)
		default:
			r.set(out[0], nil)
			out = out[1:]
		}
	}
}

// execute starts the program on the devices of this process.
func (e *Executable) execute(in []*Buffer) ([]handle, error) {
	l := launch{exe: e.p.exe, kept: e.kept, donated: e.given}
	for _, b := range in {
		<-b.done
		if b.err != nil {
			return nil, b.err
		}
		if b.d.here {
			l.args = append(l.args, b.b)
		}
	}
	for _, d := range e.on {
		if d.here {
			l.devices++
		}
	}
	if len(e.on) == 1 {
		l.on = e.on[0].device
	} else {
		e.c.launches++ // used only by this goroutine
		l.number = e.c.launches
	}
	l.results = make([]handle, l.devices*len(e.f.Results()))
	if err := e.c.engine.execute(l); err != nil {
		return nil, fmt.Errorf("run %s on %s: %w", e.f.Name(), describe(e.on), err)
	}
	return l.results, nil
}

// Memory returns the memory that the plugin planned for each device.
func (e *Executable) Memory() backend.Memory { return e.p.memory }

// Close releases the captured tensors; the compiled program is kept for equal ones.
func (e *Executable) Close() error {
	for _, list := range e.captured {
		for _, b := range list {
			b.Free()
		}
	}
	return nil
}
