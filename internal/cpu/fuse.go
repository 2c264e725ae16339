package cpu

import (
	"fmt"
	"os"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
)

// fuse joins the ops of a local program to loops, unless the options or GALLEY_FUSE=off ask for none.
func fuse(f *ir.Func, o Options) (*ir.Func, error) {
	if o.NoFuse || os.Getenv("GALLEY_FUSE") == "off" {
		return f, nil
	}
	g, err := pass.Loops(f)
	if err != nil {
		return f, fmt.Errorf("loops: %w", err)
	}
	return g, nil
}
