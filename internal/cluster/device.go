package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/strict"
)

// Device is one type of accelerator or processor.
type Device struct {
	// Name is the name of a preset, or any other.
	Name string
	// Memory is in bytes.
	Memory float64
	// Bandwidth is bytes a second between the device and its own memory.
	Bandwidth float64
	// Rates are operations a second of matrix products by number format, a multiply-add counted as two.
	Rates []Rate
	// Units is the number of multiprocessors (SMs), or cores, which compute tiles of a product in parallel; 0
	// means unknown.
	Units int
}

// Rate is the speed of products in one number format.
type Rate struct {
	// Format is fp32, tf32, fp16, bf16, fp8, fp4 or int8.
	Format string
	// Peak is operations a second by the specification, without sparsity.
	Peak float64
	// Measured is the best rate that was measured on a product of any shape; 0 means unknown.
	Measured float64
}

// fallbacks lists the formats used instead of one that the device does not have.
var fallbacks = map[string][]string{
	"fp32":  {"tf32"},
	"tf32":  {"fp32"},
	"bf16":  {"fp16", "tf32", "fp32"},
	"fp16":  {"bf16", "tf32", "fp32"},
	"fp8":   {"bf16", "fp16"},
	"mxfp8": {"fp8", "bf16", "fp16"},
	"fp4":   {"fp8", "bf16", "fp16"},
	"nvfp4": {"fp4", "fp8", "bf16"},
}

// Rate returns the speed of products in a format, or in the nearest one that the device has. ok is false if
// there is none.
func (d *Device) Rate(format string) (r Rate, ok bool) {
	for _, f := range append([]string{format}, fallbacks[format]...) {
		for _, r := range d.Rates {
			if r.Format == f {
				return r, true
			}
		}
	}
	return Rate{}, false
}

func (d *Device) check() error {
	if err := strict.CheckName("cluster: device", d.Name); err != nil {
		return err
	}
	switch {
	case d.Name == "" || strings.ContainsAny(d.Name, "\n+"):
		return fmt.Errorf("cluster: device name %q: want one line without +", d.Name)
	case !(d.Memory > 0) || bad(d.Memory):
		return fmt.Errorf("cluster: %s: how much memory it has is not known: give mem=80GB", d.Name)
	case !(d.Bandwidth > 0) || bad(d.Bandwidth):
		return fmt.Errorf("cluster: %s: its memory bandwidth is not known: give bw=2TB/s", d.Name)
	case len(d.Rates) == 0:
		return fmt.Errorf("cluster: %s: its speed is not known: give bf16=312T", d.Name)
	case d.Units < 0:
		return fmt.Errorf("cluster: %s: got %d units, want 0 or more", d.Name, d.Units)
	}
	for _, r := range d.Rates {
		if !(r.Peak > 0) || bad(r.Peak) || bad(r.Measured) || !isFormat(r.Format) {
			return fmt.Errorf("cluster: %s: rate %q of %g, measured %g: want a format of %s and a positive rate",
				d.Name, r.Format, r.Peak, r.Measured, strings.Join(formats, ", "))
		}
	}
	return nil
}

// formats are the number formats that a rate may be given for, in the order in which they print.
var formats = []string{"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4", "int8"}

func isFormat(s string) bool { return slices.Contains(formats, s) }

// setRate replaces or adds a rate, keeping the order of formats.
func (d *Device) setRate(r Rate) {
	d.Rates = slices.DeleteFunc(slices.Clone(d.Rates), func(o Rate) bool { return o.Format == r.Format })
	d.Rates = append(d.Rates, r)
	slices.SortFunc(d.Rates, func(a, b Rate) int {
		return slices.Index(formats, a.Format) - slices.Index(formats,
			b.Format)
	})
}

func (d *Device) equal(e *Device) bool {
	return d.Name == e.Name && d.Memory == e.Memory && d.Bandwidth == e.Bandwidth && d.Units == e.Units &&
		slices.Equal(d.Rates, e.Rates)
}
