package backendtest

import (
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/interpreter"
)

// Interpreter returns a backend of n devices that takes StableHLO, as accelerators do, and computes what it
// means, slowly. What is done on several devices is tested on it where no machine has any.
func Interpreter(n int) backend.Backend { return interpreter.New(n) }
