package check

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/check/report"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// StrategiesConfig selects the rows of the table to run.
type StrategiesConfig struct {
	Device *galley.Device
	// Filter is a part of the rows' names; empty means all.
	Filter string
	// Steps is the number of recorded steps to repeat; 0 means all.
	Steps int
}

// Limits of the table: the most that losses may differ from one device, in f32 and f64, and from recorded
// ones.
const (
	strategyLimit32 = 2e-5
	strategyLimit64 = 1e-10
)

// Row is a model trained with one strategy, with the largest differences of its losses.
type Row struct {
	Name string
	// F32 and F64 are differences from one device, Recorded from the curve that another framework recorded; it
	// is negative if there is none.
	F32, F64, Recorded float64
	// Devices is the number of devices, Bytes the most that one of them allocated in f32, which was predicted
	// exactly.
	Devices, Bytes int
	Faults         []string
	// Notes lists the parts of the strategy that the model does not support, and what was done instead.
	Notes []string
}

// Table is the rows and how many of them pass.
type Table struct {
	*report.Report
	Rows []Row
	w    io.Writer
}

// Strategies trains the model of each directory with every strategy that it has a row for, and compares
// losses. Rows are printed as they finish.
func Strategies(w io.Writer, dirs []string, c StrategiesConfig) (*Table, error) {
	t := &Table{Report: report.New(w, false), w: w}
	scratch, err := os.MkdirTemp("", "galley-offload-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	for _, dir := range dirs {
		m, err := newStrategyCheck(dir, c)
		if err != nil {
			return nil, err
		}
		for _, x := range mixes(m.config, scratch) {
			if name := x.label(m.config.Family); strings.Contains(name, c.Filter) {
				t.add(m.row(name, x))
			}
		}
	}
	t.Last()
	return t, nil
}

func (t *Table) add(r Row) {
	t.Rows = append(t.Rows, r)
	if len(r.Faults) == 0 {
		fmt.Fprintln(t.w, r)
	}
	for _, n := range r.Notes {
		t.Note(n)
	}
	t.Report.Add(r.Name, r.Faults, "")
}

// String returns the row in one line.
func (r Row) String() string {
	return fmt.Sprintf("ok    %-62s f32 %.1e  f64 %.1e  recorded %-8s %2d × %s", r.Name, r.F32, r.F64,
		r.recorded(), r.Devices, kib(r.Bytes))
}

func (r Row) recorded() string {
	if r.Recorded < 0 {
		return "–"
	}
	return fmt.Sprintf("%.1e", r.Recorded)
}

func kib(bytes int) string { return fmt.Sprintf("%d KiB", (bytes+1023)/1024) }

// strategyCheck is one model.
type strategyCheck struct {
	c      StrategiesConfig
	dir    string
	config models.Config
	ref    modelReference
	batches
	// one holds the losses of one device, by layers of the model and dtype.
	one map[string][]float64
}

func newStrategyCheck(dir string, c StrategiesConfig) (*strategyCheck, error) {
	m := &strategyCheck{c: c, dir: dir, one: map[string][]float64{}}
	ref, file, err := openReference(dir)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	m.ref = ref
	if c.Steps > 0 && c.Steps < len(m.ref.Losses) {
		m.ref.Losses = m.ref.Losses[:c.Steps]
	}
	if m.config, err = models.ReadConfig(dir); err != nil {
		return nil, err
	}
	if m.batches, err = readBatches(file, len(m.ref.Losses)); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// row trains in both dtypes and compares.
func (m *strategyCheck) row(name string, x mix) Row {
	r := Row{Name: name, Recorded: -1}
	for _, d := range []struct {
		dtype array.DType
		limit float64
		at    *float64
	}{{array.F32, strategyLimit32, &r.F32}, {array.F64, strategyLimit64, &r.F64}} {
		one, err := m.alone(x.layers, d.dtype)
		var got []float64
		if err == nil {
			got, err = m.train(&x.Strategy, x.layers, d.dtype, &r)
		}
		if err != nil {
			r.Faults = append(r.Faults, fmt.Sprintf("%v: %v", d.dtype, err))
			continue
		}
		r.differ(fmt.Sprintf("%v: from one device", d.dtype), d.at, d.limit, got, one)
		if x.layers == 0 {
			r.Recorded = max(r.Recorded, 0)
			r.differ(fmt.Sprintf("%v: from the recorded curve", d.dtype), &r.Recorded, modelTolerance, got,
				m.ref.Losses)
		}
	}
	return r
}

// differ sets at to the largest difference if that is larger; it must be within the limit.
func (r *Row) differ(what string, at *float64, limit float64, got, want []float64) {
	for i := range want {
		e := math.Abs(got[i] - want[i])
		if !(e <= limit) {
			r.Faults = append(r.Faults, fmt.Sprintf("%s: loss %d differs by %.3g, want ≤ %.0e", what, i, e, limit))
			return
		}
		*at = max(*at, e)
	}
}

// alone returns the losses of one device.
func (m *strategyCheck) alone(layers int, dtype array.DType) ([]float64, error) {
	key := fmt.Sprint(layers, dtype)
	if m.one[key] == nil {
		losses, err := m.train(nil, layers, dtype, nil)
		if err != nil {
			return nil, err
		}
		m.one[key] = losses
	}
	return m.one[key], nil
}

// train repeats the recorded steps, on one device or with a strategy, whose memory is stored in the row.
func (m *strategyCheck) train(s *galley.Strategy, layers int, dtype array.DType, r *Row) ([]float64, error) {
	model, err := m.model(layers, dtype)
	if err != nil {
		return nil, err
	}
	t, notes, err := m.trainer(model, s)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var losses []float64
	for i := range m.ref.Losses {
		got, err := t.Step(m.at(i)...)
		if err != nil {
			return nil, err
		}
		losses = append(losses, got.Loss)
	}
	if s == nil {
		return losses, nil
	}
	r.Notes = notes
	return losses, r.measure(t, m.types())
}

// model returns the recorded one, or a new one of more layers.
func (m *strategyCheck) model(layers int, dtype array.DType) (models.Model, error) {
	c := nn.Config{Scope: m.c.Device.NewSession(), DType: dtype, Seed: 1}
	if layers == 0 {
		return models.Load(m.dir, c)
	}
	return models.New(m.config.WithLayers(layers), c)
}

func (m *strategyCheck) trainer(model models.Model, s *galley.Strategy) (t *galley.Trainer, notes []string,
	err error) {
	o, arranged := m.ref.Optimizer, model
	if s != nil {
		if arranged, notes, err = galley.Arrange(model, *s, m.seq()); err != nil {
			return nil, nil, err
		}
	}
	t, err = galley.NewTrainer(galley.TrainerConfig{
		Device: m.c.Device, Params: model.Params(), Strategy: s, ClipNorm: o.ClipNorm,
		Loss:      func(batch []*op.Tensor) *op.Tensor { return arranged.Loss(batch[0], batch[1]) },
		Optimizer: optim.AdamW{Beta1: o.Betas[0], Beta2: o.Betas[1], Eps: o.Eps, WeightDecay: o.WeightDecay},
		Schedule:  optim.Constant{LR: o.LR},
	})
	return t, notes, err
}

// measure compares the planned memory of devices with what they allocated.
func (r *Row) measure(t *galley.Trainer, batch []ir.Type) error {
	p, err := t.Plan(batch...)
	if err != nil {
		return err
	}
	first := r.Devices == 0 // f64 takes twice as much
	taken := t.MemoryAllocated()
	r.Devices = len(taken)
	for d, bytes := range taken {
		if first {
			r.Bytes = max(r.Bytes, bytes)
		}
		if want := p.Memory[d].Peak(); bytes != want {
			return fmt.Errorf("device %d took %d bytes, predicted were %d", d, bytes, want)
		}
	}
	return nil
}

// Markdown prints the table as a Markdown page.
func (t *Table) Markdown() string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, r := range t.Rows {
		result := strings.Join(append([]string{"holds"}, r.Notes...), "; ")
		if len(r.Faults) > 0 {
			result = "**fails**: " + r.Faults[0]
		}
		fmt.Fprintf(&b, "| %s | %d | %.1e | %.1e | %s | %s | %s |\n", r.Name, r.Devices, r.F32, r.F64, r.recorded(),
			kib(r.Bytes), result)
	}
	fmt.Fprintf(&b, "\n%d passed, %d failed.\n", t.Passed(), t.Failed())
	return b.String()
}

const tableHead = `# Every strategy gives the losses of one device

Written by ` + "`galley check strategies DIR... --write docs/equivalence.md`" + `. Each row trains a model over the recorded steps, split over devices of one
process as its name says, in f32 and in f64. The numbers are the largest difference of any loss: from one device in f32 (at most
2e-5) and in f64 (1e-10), and from the curve that PyTorch recorded (2e-4). Memory is what the largest device took in f32, which is
what was predicted, to the byte. A model with ×8 is a new one of the same shape with 8 layers, for pipelines that are too long for
the recorded one.

| model and strategy | devices | f32 | f64 | recorded | memory | result |
|---|---|---|---|---|---|---|
`
