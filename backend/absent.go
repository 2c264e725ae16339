package backend

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// Absent returns a backend of n devices that does not exist: steps can be planned for it, but not run.
func Absent(n int) Backend {
	list := make([]Backend, n)
	for i := range list {
		list[i] = &absent{list}
	}
	return list[0]
}

type absent struct{ devices []Backend }

func (b *absent) Name() string       { return "a backend that is not there" }
func (b *absent) Devices() []Backend { return b.devices }
func (b *absent) Close() error       { return nil }

func (b *absent) Compile(*ir.Func, Options) (Executable, error)       { return nil, b.err() }
func (b *absent) CompileSPMD([]*ir.Func, Options) (Executable, error) { return nil, b.err() }
func (b *absent) Put(array.Array) (Buffer, error)                     { return nil, b.err() }

func (b *absent) err() error {
	return fmt.Errorf("%s: it can be planned for, not run: open one", b.Name())
}
