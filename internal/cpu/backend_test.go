package cpu_test

import (
	"testing"

	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/internal/cpu"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		d := cpu.NewDevice(cpu.Config{Threads: 2})
		t.Cleanup(d.Close)
		return d.Backend()
	})
}
