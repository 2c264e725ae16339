package check

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/check/report"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/xla"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// DevicesConfig is a training that the devices of a backend run as one program.
type DevicesConfig struct {
	Device *galley.Device
	// Open opens the backend, which is closed at the end.
	Open     func() (galley.Backend, error)
	Strategy galley.Strategy
	Model    models.Config
	// Batch, Seq and Steps are the size of the training, Compute the dtype of products if not f32.
	Batch, Seq, Steps int
	Compute           array.DType
	// Mocked means that only one of the devices exists: its losses are meaningless.
	Mocked bool
	// Timeout limits the time of each part; 0 means no limit.
	Timeout time.Duration
}

// ErrStuck reports a part that did not finish in time. What it uses must not be touched any more.
var ErrStuck = errors.New("no answer")

// Devices trains on the devices of a backend and checks part by part: the backend opens, the parameters are
// initialized there, the step compiles and runs, and its losses equal those of the host.
func Devices(w io.Writer, c DevicesConfig) (*report.Report, error) {
	d := &devicesCheck{DevicesConfig: c, r: report.New(w, true)}
	for _, part := range []struct {
		name string
		run  func() (string, error)
	}{{"open", d.open}, {"place", d.place}, {"compile", d.compile}, {"run", d.run}, {"losses", d.compare}} {
		if err := d.part(part.name, part.run); err != nil {
			d.r.Last()
			return d.r, err
		}
		if d.r.Failed() > 0 {
			break
		}
	}
	d.r.Last()
	return d.r, d.close()
}

type devicesCheck struct {
	DevicesConfig
	r       *report.Report
	b       galley.Backend
	trainer *galley.Trainer
	first   *galley.Pending
	losses  []float64
}

func (d *devicesCheck) open() (note string, err error) {
	if d.b, err = d.Open(); err != nil {
		return "", err
	}
	n := 1
	if g, ok := d.b.(backend.Group); ok {
		n = len(g.Devices())
	}
	return fmt.Sprintf(": %d device(s), the first is %s", n, d.b.Name()), nil
}

func (d *devicesCheck) close() error {
	var err error
	if d.trainer != nil {
		err = d.trainer.Close()
	}
	if d.b != nil {
		err = errors.Join(err, d.b.Close())
	}
	return err
}

// part runs one part and reports it. A plugin's whole error message is printed.
func (d *devicesCheck) part(name string, run func() (string, error)) error {
	type answer struct {
		note string
		err  error
	}
	done := make(chan answer, 1)
	start := time.Now()
	go func() { note, err := run(); done <- answer{note, err} }()
	var late <-chan time.Time
	if d.Timeout > 0 {
		late = time.After(d.Timeout)
	}
	select {
	case <-late:
		d.r.Add(name, []string{fmt.Sprintf("no answer after %v", d.Timeout)}, "")
		return ErrStuck
	case a := <-done:
		var faults []string
		if a.err != nil {
			faults = []string{a.err.Error()}
			if e, ok := errors.AsType[*xla.PluginError](a.err); ok {
				faults = append(faults, strings.Split(strings.TrimSpace(e.Full), "\n")...)
			}
		}
		d.r.Add(name, faults, fmt.Sprintf("%.2f s%s", time.Since(start).Seconds(), a.note))
		return nil
	}
}

// place makes the parameters and the optimizer's state on the devices.
func (d *devicesCheck) place() (note string, err error) {
	d.trainer, err = d.newTrainer(d.b)
	return "", err
}

// newTrainer makes a trainer on a backend, or on the host. Initial values depend only on names and the seed.
func (d *devicesCheck) newTrainer(b galley.Backend) (*galley.Trainer, error) {
	c := galley.TrainerConfig{Device: d.Device, Backend: b, Compute: d.Compute, ClipNorm: 1,
		Optimizer: optim.AdamW{WeightDecay: 0.1}, Schedule: optim.Constant{LR: 1e-3}}
	var scope op.Scope = d.Device.NewSession()
	make := ir.NewBuilder("init")
	if b != nil {
		scope, c.Strategy = make, &d.Strategy
	}
	m, err := models.New(d.Model, nn.Config{Scope: scope, Seed: 1, Frozen: b != nil})
	if err != nil {
		return nil, err
	}
	c.Params = m.Params()
	if b != nil {
		if c.Init, err = make.Build(nn.Values(m.Params())...); err != nil {
			return nil, err
		}
		if m, _, err = galley.Arrange(m, d.Strategy, d.Seq); err != nil {
			return nil, err
		}
	}
	c.Loss = func(batch []*op.Tensor) *op.Tensor { return m.Loss(batch[0], batch[1]) }
	return galley.NewTrainer(c)
}

// batch returns the ids and labels of a step.
func (d *devicesCheck) batch(step int) []array.Array {
	list := []array.Array{array.New(array.I32, d.Batch, d.Seq), array.New(array.I32, d.Batch, d.Seq)}
	for k, a := range list {
		for i := range a.Len() {
			a.Set(i, float64((i*7+step*13+i*i%11+k)%d.Model.Vocab))
		}
	}
	return list
}

func (d *devicesCheck) compile() (note string, err error) {
	if d.first, err = d.trainer.Start(d.batch(0)...); err != nil {
		return "", err
	}
	m := d.trainer.Memory()
	return fmt.Sprintf(", each device: %d bytes of state and batch, %d besides", m.Params,
		m.Arena+m.Results), nil
}

// run runs all steps; those after the first are timed.
func (d *devicesCheck) run() (string, error) {
	start, next := time.Now(), d.first
	for i := range d.Steps {
		m, err := next.Wait()
		if _, ok := errors.AsType[*galley.DivergedError](err); err != nil && !(ok && d.Mocked) {
			return "", err
		}
		if d.losses = append(d.losses, m.Loss); i == 0 {
			start = time.Now()
		}
		if i+1 < d.Steps {
			if next, err = d.trainer.Start(d.batch(i + 1)...); err != nil {
				return "", err
			}
		}
	}
	each := time.Since(start).Seconds() * 1e3 / float64(max(1, d.Steps-1))
	return fmt.Sprintf(" for %d steps, %.2f ms each after the first", d.Steps, each), nil
}

// compare trains on the host and compares the losses.
func (d *devicesCheck) compare() (string, error) {
	if d.Mocked {
		return fmt.Sprintf(": not compared: mocked devices send nothing; the first is %.4f", d.losses[0]), nil
	}
	t, err := d.newTrainer(nil)
	if err != nil {
		return "", err
	}
	limit, worst := 1e-4, 0.0
	if d.Compute != array.Invalid {
		limit = 2e-2
	}
	for i, got := range d.losses {
		m, err := t.Step(d.batch(i)...)
		if err != nil {
			return "", err
		}
		if off := math.Abs(got - m.Loss); !(off <= limit) {
			return "", fmt.Errorf("step %d: loss is %.6f, on one device of the host %.6f: want it within %g", i, got,
				m.Loss, limit)
		}
		worst = max(worst, math.Abs(got-m.Loss))
	}
	return fmt.Sprintf(": from %.4f to %.4f, %.2g from the host's at most", d.losses[0],
		d.losses[len(d.losses)-1], worst), nil
}
