package galley

import (
	"fmt"

	"github.com/galley-ml/galley/internal/auto"
	"github.com/galley-ml/galley/internal/executor/choose"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/model"
	"github.com/galley-ml/galley/optim"
)

// PlanConfig says what of a model's training is planned.
type PlanConfig struct {
	// Loss is what is made small; nil is the model's own, if it is a LossModel.
	Loss Loss
	// Optimizer's zero value is AdamW with its defaults.
	Optimizer optim.Optimizer
	// Batch is the types of a step's batch: inputs, then labels.
	Batch []Type
	// Devices is how many in-process devices there are, where no cluster is named.
	Devices int
	// Calibration is a file of galley calibrate as text; empty takes what such machines usually do.
	Calibration []byte
	// Strategy is what is not up to the search: whatever is not zero.
	Strategy Strategy
	// Annotations say the layout of parameters that is not up to the search, either.
	Annotations []Annotation
}

// ModelPlan is how the training of a model of one's own is best spread over devices: a strategy and the
// layout of every parameter and of the batch, from which that of every op follows.
type ModelPlan struct {
	Strategy Strategy
	// Annotations is the layout of every parameter.
	Annotations []Annotation
	// Step is the seconds that a step should take, Bound those that none takes less than, Bytes what the largest
	// device takes.
	Step, Bound float64
	Bytes       int
	found       auto.Candidate
	plan        *auto.Plan // nil where it was read from a file
	params      int
}

// Plan searches how the training of a model is best spread over the devices of a cluster, as galley plan
// names it ("2x8 H100-SXM ib=400G"); the empty one is the in-process devices of PlanConfig. Nothing need be
// annotated, and no layer need have a name that anybody knows. Nothing runs: parameters need no values.
func Plan(m Model, cluster string, c PlanConfig) (p *ModelPlan, err error) {
	defer fault.Recover("plan of a model", &err)
	config, err := c.auto(m, cluster)
	if err != nil {
		return nil, err
	}
	found, err := auto.Find(config)
	if err != nil {
		return nil, err
	}
	p = newModelPlan(found.Candidate, config)
	p.Step, p.Bound, p.Bytes, p.plan = found.Seconds, found.Bound, int(found.Peak), found
	return p, nil
}

func newModelPlan(found auto.Candidate, c auto.Config) *ModelPlan {
	return &ModelPlan{Strategy: found.Strategy, Annotations: found.Annotations(c.Run.Params), found: found,
		params: len(c.Run.Params)}
}

// auto returns the config of a search.
func (c PlanConfig) auto(m Model, cluster string) (out auto.Config, err error) {
	if err := model.Check("plan", m); err != nil {
		return out, err
	}
	switch p, _ := m.(*Parallel); {
	case p.Layers() != nil:
		return out, fmt.Errorf("plan: the model has a plan of layers by Parallelize: want that or a search, with " +
			"annotations for what is to stay")
	case len(c.Batch) == 0:
		return out, fmt.Errorf("plan: want the types of a batch: inputs, then labels")
	case c.Loss == nil && !model.HasLoss(m):
		return out, fmt.Errorf("plan: want a loss, such as galley.CrossEntropy")
	}
	t := TrainerConfig{Params: m.Params(), Loss: model.LossOf(m, c.Loss), Annotations: c.Annotations}
	if c.Optimizer != nil {
		if err := optimizerOf(c.Optimizer).configure(&t); err != nil {
			return out, err
		}
	}
	if t, err = t.withDefaults(); err != nil {
		return out, err
	}
	out = auto.Config{Run: t.executor(), Batch: c.Batch, Pinned: c.pinned(t), Plan: choose.Plan}
	out.Machine, err = c.machine(m, cluster)
	return out, err
}

// pinned returns what of the strategy is said, by the optimizer's wrappers, too.
func (c PlanConfig) pinned(t TrainerConfig) Strategy {
	s := c.Strategy
	if t.Strategy != nil {
		s.Zero, s.Micro = max(s.Zero, t.Strategy.Zero), max(s.Micro, t.Strategy.Micro)
	}
	s.Auto = 0
	return s
}

func (c PlanConfig) machine(m Model, cluster string) (auto.Machine, error) {
	if cluster != "" {
		return auto.On(cluster, c.Strategy.AMP, c.Calibration)
	}
	threads := 0
	if d, err := model.DeviceOf("plan", m); err == nil {
		threads = d.Threads()
	}
	return auto.Local(max(c.Devices, c.Strategy.Auto), threads, c.Calibration)
}

// String returns what was chosen, how far it is at most from the best, and why others lose.
func (p *ModelPlan) String() string {
	if p.plan == nil {
		return p.Strategy.String()
	}
	return p.plan.String()
}

// Idle returns what of the devices does nothing of its own: devices that would make a step longer, an axis
// that splits nothing. It is empty for a plan from a file.
func (p *ModelPlan) Idle() []string {
	if p.plan == nil {
		return nil
	}
	return p.plan.Idle()
}

// Apply returns the model with the plan: ToStatic, Engine and TrainerConfig.Parallel take it.
func (p *ModelPlan) Apply(m Model, optimizer optim.Optimizer) (*Parallel, error) {
	if m == nil || len(m.Params()) != p.params {
		return nil, fmt.Errorf("plan: it is for a model of %d parameters", p.params)
	}
	if err := layout.CheckAnnotations(p.Annotations, m.Params()); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	s := p.Strategy
	out := &Parallel{Model: m, Optimizer: optimizer, Strategy: &s, Annotations: p.Annotations}
	return out.WithLayers(p.found.Layers(p.params)), nil
}

// Save writes the plan as a file that LoadPlan reads.
func (p *ModelPlan) Save(path string) error {
	if p.plan == nil {
		return fmt.Errorf("plan: it was read from a file: copy that")
	}
	f, err := p.plan.File()
	if err != nil {
		return err
	}
	return f.Save(path)
}

// LoadPlan reads a plan that Save wrote, for a model and a config that make the same program; a plan for
// another is refused.
func LoadPlan(path string, m Model, c PlanConfig) (p *ModelPlan, err error) {
	defer fault.Recover("plan of a model", &err)
	f, err := planfile.LoadProgram(path)
	if err != nil {
		return nil, err
	}
	c.Devices = f.Strategy.Devices()
	config, err := c.auto(m, "")
	if err != nil {
		return nil, err
	}
	found, err := auto.Read(f, config.Run, config.Batch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p = newModelPlan(found, config)
	p.Step, p.Bound, p.Bytes = f.Seconds, f.Bound, int(f.Bytes)
	return p, nil
}

// found returns the model with the plan that a strategy with Auto asks for, and the plan.
func found(m Model, c PlanConfig) (*Parallel, *ModelPlan, error) {
	p, err := Plan(m, "", c)
	if err != nil {
		return nil, nil, err
	}
	planned, err := p.Apply(m, c.Optimizer)
	return planned, p, err
}
