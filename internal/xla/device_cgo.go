//go:build cgo && linux

package xla

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/ir"
)

// Device is one accelerator of a plugin. It is closed with all others. A mocked device has only a number:
// data put there is discarded.
type Device struct {
	*client
	place
}

// Name returns the device as its plugin describes it.
func (d *Device) Name() string { return d.name }

// Devices returns all devices of the plugin that can be used.
func (d *Device) Devices() []backend.Backend {
	list := make([]backend.Backend, len(d.all))
	for i, x := range d.all {
		list[i] = x
	}
	return list
}

// Put copies an array to the device.
func (d *Device) Put(a array.Array) (backend.Buffer, error) {
	if !d.here {
		return ready(d, ir.TypeOf(a), nil), nil
	}
	b, err := d.put(d.device, a)
	if err != nil {
		return nil, fmt.Errorf("xla: copy of %v to %s: %w", ir.TypeOf(a), d.name, err)
	}
	return ready(d, ir.TypeOf(a), b), nil
}

// Compile lowers f to StableHLO and compiles it with the plugin for one device.
func (d *Device) Compile(f *ir.Func, o backend.Options) (backend.Executable, error) {
	return newExecutable([]*ir.Func{f}, []*Device{d}, o)
}

// CompileSPMD compiles the programs of the plugin's first len(fs) devices as one.
func (d *Device) CompileSPMD(fs []*ir.Func, o backend.Options) (backend.Executable, error) {
	if len(fs) == 0 || len(fs) > len(d.all) {
		return nil, fmt.Errorf("compile: programs of %d devices: %s has %d", len(fs), d.pjrt.Plugin().Path(),
			len(d.all))
	}
	return newExecutable(fs, d.all[:len(fs)], o)
}
