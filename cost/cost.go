// Package cost describes what a training step or forward pass costs on each device, computed without running
// it.
package cost

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/galley-ml/galley/internal/units"
	"github.com/galley-ml/galley/strategy"
)

// Cost is the cost of a training step or forward pass.
type Cost struct {
	Strategy strategy.Strategy
	Devices  []Device
	// Time is the predicted duration, if an estimate is available: see galley.EngineConfig.Estimate.
	Time time.Duration
}

// Device is the share of one device.
type Device struct {
	// Weights, Slots and Sums are the bytes that persist between steps: parameters, optimizer state and
	// gradients.
	Weights, Slots, Sums int
	// Step is the additional peak memory within a step: activations, messages and workspaces.
	Step int
	// Flops counts a multiply-add as two.
	Flops float64
	// Sent is the number of bytes sent to other devices, by Collectives and Messages between stages.
	Sent                  float64
	Collectives, Messages int
}

// Memory returns the total memory of the device, exactly what training will allocate.
func (d Device) Memory() int { return d.Weights + d.Slots + d.Sums + d.Step }

// Memory returns the memory of the device that needs most.
func (c *Cost) Memory() int {
	most := 0
	for _, d := range c.Devices {
		most = max(most, d.Memory())
	}
	return most
}

// Flops returns the operations of all devices.
func (c *Cost) Flops() (sum float64) {
	for _, d := range c.Devices {
		sum += d.Flops
	}
	return sum
}

// Sent returns the bytes sent by all devices.
func (c *Cost) Sent() (sum float64) {
	for _, d := range c.Devices {
		sum += d.Sent
	}
	return sum
}

// Write prints one line per device; equal devices share a line.
func (c *Cost) Write(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s at most on a device, %.3g flops and %s between devices a step", c.Strategy,
		units.Bytes(float64(c.Memory())), c.Flops(), units.Bytes(c.Sent()))
	if c.Time > 0 {
		fmt.Fprintf(w, ", which should take %v", c.Time.Round(time.Microsecond))
	}
	fmt.Fprint(w, "\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DEVICES\tWEIGHTS\tOPTIMIZER\tGRADIENTS\tSTEP\tMEMORY\tFLOPS\tSENT\tCOLLECTIVES\tMESSAGES")
	for i := 0; i < len(c.Devices); {
		j := i
		for j+1 < len(c.Devices) && c.Devices[j+1] == c.Devices[i] {
			j++
		}
		name, d := fmt.Sprint(i), c.Devices[i]
		if j > i {
			name = fmt.Sprintf("%d-%d", i, j)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%.4g\t%.0f\t%d\t%d\n", name, d.Weights, d.Slots, d.Sums, d.Step,
			d.Memory(), d.Flops, d.Sent, d.Collectives, d.Messages)
		i = j + 1
	}
	return t.Flush()
}
