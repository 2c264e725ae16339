package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/interpreter"
)

// backendFlags choose the backend of a command.
type backendFlags struct {
	Backend string `help:"What computes: cpu, or xla for an accelerator." default:"cpu" enum:"cpu,xla"`
	pluginFlags
}

// engineFlags choose the backend of a model that is served.
type engineFlags struct {
	Backend string `help:"What computes: cpu, xla for an accelerator, or hlo, which takes an accelerator's programs and runs them slowly on the host." default:"cpu" enum:"cpu,xla,hlo"`
	pluginFlags
}

// open returns the backend, or nil for the host's CPU.
func (f engineFlags) open() (galley.Backend, error) {
	switch {
	case f.MockDevices > 0:
		return nil, fmt.Errorf("--mock-devices=%d: a model is served by one device", f.MockDevices)
	case f.DumpHLO != "" && f.Backend != "xla":
		return nil, fmt.Errorf("--dump-hlo=%s: it is for --backend=xla", f.DumpHLO)
	}
	if f.Backend != "hlo" {
		return backendFlags(f).open()
	}
	if err := f.unused(); err != nil {
		return nil, err
	}
	return interpreter.New(1), nil
}

// pluginFlags choose an accelerator's plugin and how programs are compiled for it.
type pluginFlags struct {
	Plugin       string   `help:"Path of a PJRT plugin; without it GALLEY_PLUGIN, or the first one found." type:"path" placeholder:"FILE"`
	XLAFlag      []string `name:"xla-flag" help:"A flag of XLA's own, such as --xla-flag=--xla_gpu_autotune_level=4; may be given more than once." sep:"none" placeholder:"FLAG"`
	DumpHLO      string   `name:"dump-hlo" help:"Directory to write the StableHLO of every compiled program to." type:"path" placeholder:"DIR"`
	CompileCache string   `help:"Directory to keep compiled programs in: the next run with the same plugin and flags starts with them." type:"path" placeholder:"DIR"`

	MockDevices int `help:"Have CUDA's plugin pretend that it has this many devices: programs for all of them compile, and run on the first, whose collectives bring nothing. Losses then mean nothing." placeholder:"N"`
}

// open returns the accelerator, or nil for the host's CPU.
func (f backendFlags) open() (galley.Backend, error) {
	if f.Backend == "cpu" {
		return nil, f.unused()
	}
	return f.pluginFlags.open()
}

// unused returns an error if an accelerator's flags are set without an accelerator.
func (f pluginFlags) unused() error {
	if f.Plugin != "" || len(f.XLAFlag) > 0 || f.MockDevices > 0 || f.CompileCache != "" {
		return fmt.Errorf("--plugin, --xla-flag, --mock-devices, --compile-cache: they are for --backend=xla")
	}
	return nil
}

func (f pluginFlags) open() (galley.Backend, error) {
	if f.MockDevices < 0 || f.MockDevices == 1 {
		return nil, fmt.Errorf("--mock-devices=%d: want 2 or more", f.MockDevices)
	}
	c := galley.XLAConfig{Plugin: f.Plugin, Flags: f.XLAFlag, Mock: f.MockDevices, Cache: f.CompileCache}
	if f.DumpHLO != "" {
		if err := os.MkdirAll(f.DumpHLO, 0o755); err != nil {
			return nil, err
		}
		c.Dump = func(name, text string) {
			path := filepath.Join(f.DumpHLO, name+".mlir")
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				fmt.Fprintln(os.Stderr, "galley: --dump-hlo:", err)
			}
		}
	}
	return galley.XLA(c)
}

// closed closes a backend and returns the first error: err, or that of closing.
func closed(b galley.Backend, err error) error {
	if b == nil {
		return err
	}
	if e := b.Close(); err == nil {
		err = e
	}
	return err
}
