package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/op"
)

// CalibrateConfig describes what to measure of this machine.
type CalibrateConfig struct {
	// Devices is the number of in-process devices that share it; 0 means 1.
	Devices int
	// Threads is the number of threads; 0 means all cores.
	Threads int
	// Passes is how often measurements that other load may disturb are repeated; 0 means 3.
	Passes int
	// Log, if not nil, receives each result; Tell is called with the progress.
	Log  io.Writer
	Tell func(what string, done, all int)
	// Keep, if not nil, is called after each part of the measurements with the calibration so far, which is
	// usable each time; the last one is the result. An error ends the measurements.
	Keep func(c plan.Calibration) error
}

// calibration is a running calibration.
type calibration struct {
	CalibrateConfig
	device *galley.Device
}

// Calibrate measures this machine: products by size, memory, attention, the overhead of an op, and
// collectives between its devices. The result includes the machine as a cluster.
func Calibrate(c CalibrateConfig) (plan.Calibration, error) {
	c.Devices, c.Passes = max(1, c.Devices), cmp.Or(c.Passes, 3)
	m := &calibration{CalibrateConfig: c, device: galley.CPU(galley.Config{Threads: c.Threads})}
	defer m.device.Close()
	hw := cluster.Local(cluster.LocalConfig{Devices: c.Devices})
	curve, err := m.curve(&hw.Groups[0].Device)
	if err != nil {
		return plan.Calibration{}, err
	}
	if c.Devices > 1 {
		if hw.Groups[0].Fabric, err = m.fabric(); err != nil {
			return plan.Calibration{}, err
		}
	}
	out := plan.Calibration{Level: 1, Cluster: string(hw.YAML()), Devices: []plan.Curve{curve}}
	so := func(h *plan.Host, rest string) error {
		out.Host, out.Source = h, fmt.Sprintf("measured, %d threads%s", m.device.Threads(), rest)
		return m.keep(out)
	}
	if err := so(nil, ", without its cores"); err != nil {
		return out, err
	}
	host, err := m.host(func(h *plan.Host, passes int) error {
		return so(h, fmt.Sprintf(", ops in %d of %d passes", passes, m.Passes))
	})
	if err != nil {
		return plan.Calibration{}, err
	}
	return out, so(host, "")
}

// keep passes the calibration so far to Keep.
func (m *calibration) keep(c plan.Calibration) error {
	if m.Keep == nil {
		return nil
	}
	return m.Keep(c)
}

func (m *calibration) say(format string, args ...any) {
	if m.Log != nil {
		fmt.Fprintf(m.Log, format+"\n", args...)
	}
}

func (m *calibration) tell(what string, done, all int) {
	if m.Tell != nil {
		m.Tell(what, done, all)
	}
}

// sides are the matrix sizes that are measured; training multiplies many rows by narrow and wide matrices.
var sides = [...]int{32, 128, 512, 1024}

// curve measures one device that has the machine to itself; with several, each has an equal share.
func (m *calibration) curve(d *cluster.Device) (plan.Curve, error) {
	c := plan.Curve{Device: d.Name, Stream: 1}
	launch, err := m.time(20e-3, []op.Type{f32(1)}, func(in []*op.Tensor) *op.Tensor { return op.Neg(in[0]) })
	if err != nil {
		return c, err
	}
	c.Launch = round(launch)
	n := 1 << 23
	stream, err := m.time(50e-3, []op.Type{f32(n), f32(n)},
		func(in []*op.Tensor) *op.Tensor { return op.Add(in[0], in[1]) })
	if err != nil {
		return c, err
	}
	part := float64(m.Devices)
	d.Bandwidth = round(12 * float64(n) / stream / part)
	m.say("memory %.2f GB/s, an op %.1f µs", 12*float64(n)/stream/1e9, 1e6*launch)
	rates, err := m.products(&c)
	if err != nil {
		return c, err
	}
	peak := 0.0
	for _, r := range rates {
		peak = math.Max(peak, r)
	}
	for i, r := range rates {
		c.Products[i].Efficiency = round(r / peak)
	}
	c.Ceiling = 1
	peak = round(peak/part) * part
	d.Rates = []cluster.Rate{{Format: "fp32", Peak: peak / part, Measured: peak / part}}
	return c, m.attention(&c, peak)
}

// round keeps four digits: more than a measurement's accuracy.
func round(x float64) float64 {
	if x == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

func f32(shape ...int) op.Type { return op.Type{DType: array.F32, Shape: shape} }

// time returns the best seconds of a run of a program with one result, repeated for about budget seconds.
func (m *calibration) time(budget float64, in []op.Type, f func(in []*op.Tensor) *op.Tensor) (float64,
	error) {
	p, err := galley.Trace("calibrate", in, func(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{f(in)} })
	if err != nil {
		return 0, err
	}
	e, err := galley.Compile(m.device, p, galley.Options{NoFuse: true})
	if err != nil {
		return 0, err
	}
	args := make([]array.Array, len(in))
	for i, t := range in {
		args[i] = random(m.device, t, uint64(i+1))
	}
	into, err := e.Run(args)
	if err != nil {
		return 0, err
	}
	best := math.Inf(1)
	// others use the machine, too
	for start, runs := time.Now(), 0; time.Since(start).Seconds() < budget || runs < 5; runs++ {
		t := time.Now()
		if _, err := e.RunInto(args, into); err != nil {
			return 0, err
		}
		best = math.Min(best, time.Since(t).Seconds())
	}
	return best, nil
}

// products times products of all sizes and returns their rates, without an op's overhead.
func (m *calibration) products(c *plan.Curve) ([]float64, error) {
	var rates []float64
	for _, rows := range sides {
		for _, n := range sides {
			for _, k := range sides {
				m.tell("products on all threads", len(rates), len(sides)*len(sides)*len(sides))
				t, err := m.time(15e-3, []op.Type{f32(rows, k), f32(k, n)},
					func(in []*op.Tensor) *op.Tensor { return op.MatMul(in[0], in[1]) })
				if err != nil {
					return nil, err
				}
				rate := 2 * float64(rows) * float64(n) * float64(k) / math.Max(t-c.Launch, t/2)
				c.Products = append(c.Products, plan.Product{M: rows, N: n, K: k})
				rates = append(rates, rate)
				m.say("product %d×%d by %d×%d: %.1f GFLOP/s", rows, k, k, n, rate/1e9)
			}
		}
	}
	return rates, nil
}

// attention times fused attention and its gradient.
func (m *calibration) attention(c *plan.Curve, peak float64) error {
	q := f32(2, 256, 8, 64)
	work := 4.0 * 2 * 8 * 256 * 256 * 64 / 2
	forward, err := m.time(40e-3, []op.Type{q, q, q}, func(in []*op.Tensor) *op.Tensor {
		return op.Attention(in[0], in[1], in[2], op.AttentionConfig{Causal: true})
	})
	if err != nil {
		return err
	}
	both, err := m.time(80e-3, []op.Type{q, q, q}, func(in []*op.Tensor) *op.Tensor {
		y := op.Attention(in[0], in[1], in[2], op.AttentionConfig{Causal: true})
		g := op.Grad([]*op.Tensor{y}, nil, in)
		return op.Add(op.Add(g[0], g[1]), g[2])
	})
	if err != nil {
		return err
	}
	c.Fused = round(math.Min(1, work/forward/peak))
	c.FusedGrad = round(math.Min(1, 2.5*work/math.Max(both-forward, both/4)/peak))
	m.say("attention at %.0f%% of the best product, its gradient at %.0f%%", 100*c.Fused, 100*c.FusedGrad)
	return nil
}

// fabric times all-reduces between the devices and returns the link that would give these times.
func (m *calibration) fabric() (cluster.Link, error) {
	small, err := m.allReduce(1 << 8)
	if err != nil {
		return cluster.Link{}, err
	}
	elements := 1 << 21
	large, err := m.allReduce(elements)
	if err != nil {
		return cluster.Link{}, err
	}
	n := float64(m.Devices)
	wire := 2 * (n - 1) / n * 4 * float64(elements)
	l := cluster.Link{Kind: "memory", Bandwidth: round(wire / math.Max(large-small, large/2)), Efficiency: 1,
		Latency: 1e-9, Setup: round(small)}
	m.say("all-reduce over %d devices: %.1f µs, then %.2f GB/s", m.Devices, 1e6*small, l.Bandwidth/1e9)
	return l, nil
}

// allReduce returns the best seconds of an all-reduce of the given number of float32s.
func (m *calibration) allReduce(elements int) (float64, error) {
	w, err := inproc.New(m.Devices)
	if err != nil {
		return 0, err
	}
	best := math.Inf(1)
	err = w.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
		all, err := r.Group(nil)
		if err != nil {
			return err
		}
		x := array.New(array.F32, elements)
		for range 12 {
			if err := all.Barrier(); err != nil {
				return err
			}
			start := time.Now()
			if _, err := all.AllReduce(array.Array{}, x, comm.Sum); err != nil {
				return err
			}
			if r.ID() == 0 {
				best = math.Min(best, time.Since(start).Seconds())
			}
		}
		return nil
	})
	return best, err
}
