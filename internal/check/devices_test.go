package check

import (
	"bytes"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/models"
)

// TestDevices: the check passes where devices compute what they should, and fails where there are too few.
func TestDevices(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	c := DevicesConfig{Device: d, Open: func() (galley.Backend, error) {
		return backendtest.Interpreter(4),
			nil
	}, Strategy: galley.Strategy{DP: 2, TP: 2, Zero: 1}, Batch: 4, Seq: 8, Steps: 3,
		Model: models.Config{Family: "llama", Vocab: 24, Hidden: 16, Intermediate: 24, Layers: 1, Heads: 4}}
	var out bytes.Buffer
	r, err := Devices(&out, c)
	if err != nil || r.Passed() != 5 || r.Failed() != 0 {
		t.Errorf("got %v\n%s", err, &out)
	}
	c.Strategy.Micro = 2
	out.Reset()
	if r, err = Devices(&out, c); err != nil || r.Passed() != 5 || r.Failed() != 0 {
		t.Errorf("in micro-batches: got %v\n%s", err, &out)
	}
	c.Strategy.DP = 4
	out.Reset()
	if r, err = Devices(&out, c); err != nil || r.Failed() != 1 ||
		!strings.Contains(out.String(), "takes 8 devices: interpreter 0 has 4") {
		t.Errorf("got %v\n%s", err, &out)
	}
}
