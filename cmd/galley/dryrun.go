package main

import (
	"fmt"
	"io"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/dryrun"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// dryRun plans the run as training would and prints the memory of every device. The model has shapes only.
func (t *training) dryRun(w io.Writer) error {
	if t.Backend != "cpu" || t.Eager {
		return fmt.Errorf("--dry-run: it is for devices of this process: want neither --backend nor --eager")
	}
	config, planned, err := t.dryModel()
	if err != nil {
		return err
	}
	if t.model, err = models.New(config, nn.Config{}); err != nil {
		return err
	}
	p, err := t.dryPlan()
	if err != nil {
		return err
	}
	fmt.Fprintln(w, p)
	writeDevices(w, p)
	return againstPlan(w, p, planned)
}

// dryModel returns the model of a dry run, and its plan file if there is one.
func (t *training) dryModel() (config models.Config, planned *planfile.File, err error) {
	if t.Plan != "" {
		if planned, err = planfile.Load(t.Plan); err != nil {
			return config, nil, err
		}
	}
	switch {
	case t.Model != "":
		config, err = models.ReadConfig(t.Model)
	case planned != nil:
		t.Batch, t.Seq = planned.Workload.Batch, planned.Workload.Seq
		config, err = forecast.ConfigOf(planned.Workload.Model)
	default:
		if t.tokenizer, err = openTokenizer(t.Tokenizer, ""); err == nil {
			config = t.newConfig()
		}
	}
	return config, planned, err
}

// dryPlan returns the planned step of the run, without reading the weights that training would load.
func (t *training) dryPlan() (*galley.StepPlan, error) {
	s, err := t.chooseStrategy()
	if err != nil {
		return nil, err
	}
	if s == nil {
		s = &galley.Strategy{}
	}
	model, err := t.withLoss(t.model)
	if err != nil {
		return nil, err
	}
	if model, _, err = galley.Arrange(model, *s, t.Seq); err != nil {
		return nil, err
	}
	c := t.trainerConfig(s, model)
	c.Load = func(p *nn.Param, _ mesh.Box, _ array.Array) error {
		return fmt.Errorf("parameter %q is read in a dry run", p.Name)
	}
	trainer, err := galley.NewTrainer(c)
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	return trainer.Plan(dryrun.Windows(t.Batch, t.Seq))
}

// writeDevices prints one line for each range of devices that need the same memory.
func writeDevices(w io.Writer, p *galley.StepPlan) {
	offloaded := func(d int) int {
		if p.Step == nil {
			return 0
		}
		return p.Step.OffloadedBytes(d)
	}
	for i := 0; i < len(p.Memory); {
		j := i + 1
		for j < len(p.Memory) && p.Memory[j] == p.Memory[i] && offloaded(j) == offloaded(i) {
			j++
		}
		name := fmt.Sprintf("device %d", i)
		if j > i+1 {
			name = fmt.Sprintf("devices %d-%d", i, j-1)
		}
		m := p.Memory[i]
		text := fmt.Sprintf("%s: %d bytes: parameters %d, gradients %d, optimizer %d, step %d", name, m.Peak(),
			m.Weights,
			m.Sums, m.Slots, m.Step)
		if n := offloaded(i); n > 0 {
			text += fmt.Sprintf("; %d more elsewhere", n)
		}
		fmt.Fprintln(w, text)
		i = j
	}
}

// againstPlan compares the memory of the devices with that in a plan file.
func againstPlan(w io.Writer, p *galley.StepPlan, f *planfile.File) error {
	if f == nil {
		return nil
	}
	if len(f.Predicted.Devices) == 0 {
		fmt.Fprintln(w, "the plan does not say what devices take to the byte: galley plan --tapes -o writes it")
		return nil
	}
	for d, m := range p.Memory {
		if want := f.Predicted.Devices[d]; int64(m.Peak()) != want {
			return fmt.Errorf("device %d takes %d bytes: the plan has %d: it was made by another version, or for "+
				"another "+
				"optimizer: make a new one with galley plan", d, m.Peak(), want)
		}
	}
	fmt.Fprintln(w, "as planned, to the byte")
	return writeOver(w, f)
}

// writeOver prints where the tapes of a plan need more memory than its hardware has.
func writeOver(w io.Writer, f *planfile.File) error {
	text, err := dryrun.Over(f)
	if text != "" {
		fmt.Fprintln(w, text)
	}
	return err
}
