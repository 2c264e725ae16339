package backendtest_test

import (
	"testing"

	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/backend/backendtest"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(*testing.T) backend.Backend { return backendtest.Interpreter(4) })
}
