package backendtest_test

import (
	"testing"

	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/backend/backendtest"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(*testing.T) backend.Backend { return backendtest.Interpreter(4) })
}
