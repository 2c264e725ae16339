package cpu

import (
	"fmt"
	"os"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
)

// fuse fuses the ops of a local program into loops, unless the options turn that off.
func fuse(f *ir.Func, o Options) (*ir.Func, error) {
	if o.NoFuse {
		return f, nil
	}
	return Loops(f)
}

// Loops fuses the ops of a local program into loops, unless GALLEY_FUSE=off.
func Loops(f *ir.Func) (*ir.Func, error) {
	if os.Getenv("GALLEY_FUSE") == "off" {
		return f, nil
	}
	g, err := pass.Loops(f)
	if err != nil {
		return f, fmt.Errorf("loops: %w", err)
	}
	return g, nil
}
