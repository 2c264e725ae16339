package plan

import (
	"fmt"

	"github.com/galley-ml/galley/internal/strict"
	"github.com/goccy/go-yaml"
)

// Calibration holds what the specification of the hardware does not say. The zero value is level 0: typical
// values for machines of its kind. Level 1 comes from micro-benchmarks, level 2 adds at most three constants
// fitted to whole runs.
type Calibration struct {
	Level int `yaml:"level" json:"level"`
	// Source names the origin of the numbers.
	Source string `yaml:"source,omitempty" json:"source,omitempty"`
	// Cluster is the machine that was measured, as cluster.Parse reads it; it may be empty.
	Cluster string `yaml:"cluster,omitempty" json:"cluster,omitempty"`
	// Devices holds curves by the device's name; a device without one gets the typical curve.
	Devices []Curve `yaml:"devices,omitempty" json:"devices,omitempty"`
	// Host is the measured performance of a core, for devices that share a machine's cores; nil if it was not
	// measured.
	Host *Host `yaml:"host,omitempty" json:"host,omitempty"`
	// Constants were fitted to whole runs.
	Constants Constants `yaml:"constants,omitempty" json:"constants,omitzero"`
	// Spread is half the width of the interval, as a fraction of the step; 0 means the typical value of the
	// level.
	Spread float64 `yaml:"spread,omitempty" json:"spread,omitempty"`
}

// Curve is the real performance of a device.
type Curve struct {
	Device string `yaml:"device" json:"device"`
	// Ceiling is the fraction of the peak that a large, well-shaped product reaches; 0 means the measured rate
	// of the device, or 0.75.
	Ceiling float64 `yaml:"ceiling,omitempty" json:"ceiling,omitempty"`
	// Ramp is the length of the contracted dim at which a product reaches half of the ceiling.
	Ramp float64 `yaml:"ramp,omitempty" json:"ramp,omitempty"`
	// Tile is the side of the largest square tile of a result that one unit computes.
	Tile int `yaml:"tile,omitempty" json:"tile,omitempty"`
	// Fused and FusedGrad are the fractions of the peak that fused attention reaches, forward and backward.
	Fused     float64 `yaml:"fused,omitempty" json:"fused,omitempty"`
	FusedGrad float64 `yaml:"fused_grad,omitempty" json:"fused_grad,omitempty"`
	// Stream is the fraction of the memory bandwidth that element-wise ops reach.
	Stream float64 `yaml:"stream,omitempty" json:"stream,omitempty"`
	// Launch is the launch overhead of an op in seconds.
	Launch float64 `yaml:"launch,omitempty" json:"launch,omitempty"`
	// Products holds measured shapes, which take precedence over the curve.
	Products []Product `yaml:"products,omitempty" json:"products,omitempty"`
	// Attention holds measured shapes of fused attention, likewise.
	Attention []Attention `yaml:"attention,omitempty" json:"attention,omitempty"`
}

// Attention is the measured fraction of the peak of fused causal attention, counting the operations that the
// mask admits.
type Attention struct {
	Batch    int     `yaml:"batch" json:"batch"`
	Seq      int     `yaml:"seq" json:"seq"`
	Heads    int     `yaml:"heads" json:"heads"`
	KVHeads  int     `yaml:"kv_heads" json:"kv_heads"`
	Dim      int     `yaml:"dim" json:"dim"`
	Value    int     `yaml:"value" json:"value"`
	Forward  float64 `yaml:"forward" json:"forward"`
	Backward float64 `yaml:"backward" json:"backward"`
}

// Product is the measured fraction of the peak of one product of shape M×K by K×N, or of each of several
// groups of that shape.
type Product struct {
	M          int     `yaml:"m" json:"m"`
	N          int     `yaml:"n" json:"n"`
	K          int     `yaml:"k" json:"k"`
	Groups     int     `yaml:"groups,omitempty" json:"groups,omitempty"`
	Efficiency float64 `yaml:"efficiency" json:"efficiency"`
}

// Constants multiply the times of the curves. 0 means 1.
type Constants struct {
	// Compute multiplies the time of all computation, Communication that of all collectives.
	Compute       float64 `yaml:"compute,omitempty" json:"compute,omitempty"`
	Communication float64 `yaml:"communication,omitempty" json:"communication,omitempty"`
	// Layer is the additional time of every layer and micro-batch in seconds: what a framework spends between
	// kernels.
	Layer float64 `yaml:"layer,omitempty" json:"layer,omitempty"`
}

func (c Constants) compute() float64       { return orOne(c.Compute) }
func (c Constants) communication() float64 { return orOne(c.Communication) }

func orOne(x float64) float64 {
	if x == 0 {
		return 1
	}
	return x
}

// spread returns half the width of the interval.
func (c *Calibration) spread() float64 {
	if c.Spread > 0 {
		return c.Spread
	}
	return [...]float64{0.35, 0.2, 0.12}[min(max(c.Level, 0), 2)]
}

// curve returns the curve of a device, with typical values in place of zeros.
func (c *Calibration) curve(device string) Curve {
	found := Curve{Device: device}
	for _, k := range c.Devices {
		if k.Device == device {
			found = k
		}
	}
	for _, f := range []struct {
		to    *float64
		usual float64
	}{{&found.Ramp, 256}, {&found.Fused, 0.5}, {&found.FusedGrad, 0.4}, {&found.Stream, 0.8}, {&found.Launch,
		5e-6}} {
		if *f.to == 0 {
			*f.to = f.usual
		}
	}
	if found.Tile == 0 {
		found.Tile = 128
	}
	return found
}

// YAML writes the calibration as a file.
func (c *Calibration) YAML() []byte {
	out, err := yaml.MarshalWithOptions(c, yaml.UseLiteralStyleIfMultiline(true))
	if err != nil {
		panic("plan: " + err.Error())
	}
	return out
}

// ParseCalibration reads a calibration file. Errors name line and column.
func ParseCalibration(text []byte) (Calibration, error) {
	var c Calibration
	if err := strict.YAML(text, &c); err != nil {
		return Calibration{}, fmt.Errorf("calibration: %w", err)
	}
	return c, c.check()
}

func (c *Calibration) check() error {
	if c.Level < 0 || c.Level > 2 {
		return fmt.Errorf("calibration: level %d: want 0 to 2", c.Level)
	}
	for _, d := range c.Devices {
		for _, x := range []float64{d.Ceiling, d.Fused, d.FusedGrad, d.Stream} {
			if !(x >= 0 && x <= 1) {
				return fmt.Errorf("calibration: %s: got %g where a part of a whole is wanted, 0 to 1", d.Device, x)
			}
		}
		if !(d.Launch >= 0 && d.Launch < 1) || !(d.Ramp >= 0 && d.Ramp < 1e9) || d.Tile < 0 || d.Tile > 1<<20 {
			return fmt.Errorf("calibration: %s: launch %g s, ramp %g and tile %d must be small and not negative",
				d.Device, d.Launch, d.Ramp, d.Tile)
		}
		for _, p := range d.Products {
			if p.M < 1 || p.N < 1 || p.K < 1 || p.Groups < 0 || !(p.Efficiency > 0 && p.Efficiency <= 2) {
				return fmt.Errorf("calibration: %s: product %+v: want sides of at least 1 and an efficiency above 0",
					d.Device, p)
			}
		}
		for _, a := range d.Attention {
			if a.Batch < 1 || a.Seq < 1 || a.Heads < 1 || a.KVHeads < 1 || !(a.Forward >= 0 && a.Forward <= 2) ||
				!(a.Backward >= 0 && a.Backward <= 2) {
				return fmt.Errorf("calibration: %s: attention %+v: want sides of at least 1", d.Device, a)
			}
		}
	}
	if c.Host != nil {
		if err := c.Host.check(); err != nil {
			return err
		}
	}
	k := &c.Constants
	for _, x := range []float64{k.Compute, k.Communication, k.Layer, c.Spread} {
		if !(x >= 0 && x < 100) {
			return fmt.Errorf("calibration: constant %g: want 0 to 100", x)
		}
	}
	return nil
}
