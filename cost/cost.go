// Package cost is what a training step or a forward pass takes on each device, known before it runs.
package cost

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/galley-ml/galley/internal/units"
	"github.com/galley-ml/galley/strategy"
)

// Cost is what a training step, or a forward pass, takes, known before it runs.
type Cost struct {
	Strategy strategy.Strategy
	Devices  []Device
	// Time is how long a step should take, where somebody can tell: see galley.EngineConfig.Estimate.
	Time time.Duration
}

// Device is one device's share.
type Device struct {
	// Weights, Slots and Sums are bytes that live from step to step: the parameters, the optimizer's memory, the
	// gradients.
	Weights, Slots, Sums int
	// Step is the bytes that a step needs besides at once: activations, messages, what ops compute with.
	Step int
	// Flops counts a multiply-add as two.
	Flops float64
	// Sent is the bytes that leave for other devices, in so many collectives and messages between stages.
	Sent                  float64
	Collectives, Messages int
}

// Memory returns all bytes of a device at once: what training then takes, to the byte.
func (d Device) Memory() int { return d.Weights + d.Slots + d.Sums + d.Step }

// Memory returns the memory of the device that needs most.
func (c *Cost) Memory() int {
	most := 0
	for _, d := range c.Devices {
		most = max(most, d.Memory())
	}
	return most
}

// Flops and Sent are those of all devices.
func (c *Cost) Flops() (sum float64) {
	for _, d := range c.Devices {
		sum += d.Flops
	}
	return sum
}

// Sent returns the bytes that pass between devices.
func (c *Cost) Sent() (sum float64) {
	for _, d := range c.Devices {
		sum += d.Sent
	}
	return sum
}

// Write prints a line for each device; equal ones share a line.
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
