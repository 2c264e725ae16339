package check

import (
	"bytes"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
)

// TestAuto: plans of two of the programs are near the best of their space, run, and the table says so. All of
// them are for galley check auto.
func TestAuto(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 2})
	defer d.Close()
	var programs []AutoProgram
	for _, p := range AutoPrograms() {
		if p.Name == "deep MLP" || p.Name == "LSTM" && !testing.Short() {
			programs = append(programs, p)
		}
	}
	var out bytes.Buffer
	rows, err := Auto(&out, AutoConfig{Device: d, Calibration: tinyHost(2), Devices: 2, Limit: 150, Rounds: 1,
		Programs: programs})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range rows {
		if x.Found > mostOff*x.Best || x.Best > x.Found*1.003 || x.Space > 150 || x.Priced > x.Space {
			t.Errorf("%s:\n%s", x.Name, &out)
		}
	}
	if !strings.Contains(out.String(), "deep MLP") {
		t.Errorf("table:\n%s", &out)
	}
	rows[0].Ratio = 1.2
	if rows.Holds() {
		t.Error("a plan that takes longer than data parallelism holds")
	}
}
