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

// PlanConfig configures Plan.
type PlanConfig struct {
	// Loss is minimised; nil uses the loss of a LossModel.
	Loss Loss
	// Optimizer defaults to AdamW.
	Optimizer optim.Optimizer
	// Batch has the types of a step's batch: inputs, then labels.
	Batch []Type
	// Devices is the number of in-process devices if no cluster is named.
	Devices int
	// Calibration is the content of a file written by galley calibrate; empty uses typical values.
	Calibration []byte
	// Strategy fixes part of the result: the search only chooses fields that are zero.
	Strategy Strategy
	// Annotations fix the sharding of parameters.
	Annotations []Annotation
}

// ModelPlan is the best way found to distribute the training of an arbitrary model: a strategy and a sharding
// for every parameter and for the batch, from which the shardings of all ops follow.
type ModelPlan struct {
	Strategy Strategy
	// Annotations has the sharding of every parameter.
	Annotations []Annotation
	// Step is the predicted step time in seconds, Bound a lower bound for any plan, Bytes the memory of the
	// device that needs most.
	Step, Bound float64
	Bytes       int
	found       auto.Candidate
	plan        *auto.Plan // nil if the plan was read from a file
	params      int
}

// Plan searches for the best way to train a model on a cluster, written as for galley plan ("2x8 H100-SXM
// ib=400G"); an empty cluster means the in-process devices of PlanConfig. The model needs no annotations and
// no known layer names. Nothing runs, and parameters need no values.
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

// auto returns the config of the search.
func (c PlanConfig) auto(m Model, cluster string) (out auto.Config, err error) {
	if err := model.Check("plan", m); err != nil {
		return out, err
	}
	switch p, _ := m.(*Parallel); {
	case p.Layers() != nil:
		return out, fmt.Errorf("plan: the model has a plan by Parallelize: want that, or a search, in which " +
			"annotations fix layouts")
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

// pinned returns the part of the strategy that is fixed by the caller or by the optimizer.
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

// String returns the choice, its distance from the lower bound, and why alternatives are slower.
func (p *ModelPlan) String() string {
	if p.plan == nil {
		return p.Strategy.String()
	}
	return p.plan.String()
}

// Idle lists devices and mesh axes that the plan leaves without work, because using them would make a step
// slower. It is empty for a plan read from a file.
func (p *ModelPlan) Idle() []string {
	if p.plan == nil {
		return nil
	}
	return p.plan.Idle()
}

// Apply attaches the plan to a model, for ToStatic, Engine and TrainerConfig.Parallel.
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

// Save writes the plan to a file that LoadPlan reads.
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

// LoadPlan reads a plan that Save wrote. It returns an error unless the model and config trace to the program
// that was planned.
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

// found runs the search for a strategy with Auto and returns the model with its plan.
func searchPlan(m Model, c PlanConfig) (*Parallel, *ModelPlan, error) {
	p, err := Plan(m, "", c)
	if err != nil {
		return nil, nil, err
	}
	planned, err := p.Apply(m, c.Optimizer)
	return planned, p, err
}
