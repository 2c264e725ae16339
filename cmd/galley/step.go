package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// stepFlags choose the training step of a command. Only shapes are needed: nothing is computed.
type stepFlags struct {
	Model  string `help:"Hugging Face directory, of which only config.json is read, or tiny or small. Without it a llama of two heads." placeholder:"DIR|NAME"`
	Batch  int    `help:"Sequences in a step; 0 is 2, or one for each device and micro-batch." placeholder:"N"`
	Seq    int    `help:"Tokens in a sequence." default:"8"`
	Layers int    `help:"Blocks; 0 is those of the model, or one for each stage." placeholder:"N"`
	Dim    int    `help:"Width of the llama of two heads." default:"16"`
}

// byteVocab is the vocabulary of made-up models: bytes.
const byteVocab = 256

func (c stepFlags) validate() error {
	if err := positive(map[string]int{"seq": c.Seq, "dim": c.Dim}); err != nil {
		return err
	}
	if err := natural(map[string]int{"layers": c.Layers, "batch": c.Batch}); err != nil {
		return err
	}
	if c.Model == "" && c.Dim%4 != 0 {
		return fmt.Errorf("--dim=%d: want a multiple of 4: the small model has two heads of an even width", c.Dim)
	}
	return nil
}

func (c stepFlags) config() (models.Config, error) {
	var config models.Config
	var err error
	switch c.Model {
	case "":
		config = models.Config{
			Family: "llama", Vocab: byteVocab, Hidden: c.Dim, Intermediate: 2 * c.Dim, Layers: 1, Heads: 2,
			Positions: c.Seq, Tied: true,
		}
	case "tiny":
		config = models.Tiny(byteVocab)
	case "small":
		config = models.Small(byteVocab)
	default:
		if config, err = models.ReadConfig(c.Model); err != nil {
			return config, err
		}
	}
	if c.Layers > 0 {
		config = config.WithLayers(c.Layers)
	}
	return config, longEnough(config, c.Seq)
}

// model returns the model without values.
func (c stepFlags) model() (models.Model, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	return models.New(config, nn.Config{})
}

// trainer returns the trainer's configuration for a step of the model, and the type of its batch.
func (c stepFlags) trainer(m models.Model) (galley.TrainerConfig, op.Type) {
	return galley.TrainerConfig{Params: m.Params(), ClipNorm: 1,
		Loss: func(batch []*op.Tensor) *op.Tensor { return nextToken(m, batch[0]) },
	}, op.Type{DType: array.I32, Shape: array.Shape{c.Batch, c.Seq + 1}}
}

// program returns the step as one program.
func (c stepFlags) program() (*galley.Program, error) {
	if c.Batch == 0 {
		c.Batch = 2
	}
	m, err := c.model()
	if err != nil {
		return nil, err
	}
	config, t := c.trainer(m)
	return galley.TraceStep(config, t)
}

// plan returns the step as train runs it with a strategy (nil is one device), on backends or on the CPU.
func (c stepFlags) plan(
	asked *galley.Strategy,
	backends bool,
	shard []mesh.Annotation,
) (*galley.StepPlan, error) {
	s, err := cmp.Or(asked, &galley.Strategy{}).WithDefaults()
	if err != nil {
		return nil, err
	}
	schedule, err := s.Pipeline()
	if err != nil {
		return nil, err
	}
	if c.Layers == 0 && c.Model == "" {
		c.Layers = schedule.Stages
	}
	if c.Batch == 0 {
		c.Batch = max(2, s.DP*s.Micro)
	}
	m, err := c.model()
	if err != nil {
		return nil, err
	}
	arranged, notes, err := galley.Arrange(m, s, c.Seq)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		fmt.Fprintln(os.Stderr, n)
	}
	config, t := c.trainer(arranged)
	config.Params, config.Annotations = m.Params(), shard
	if asked != nil {
		config.Strategy = &s
	}
	if backends {
		config.Backend = backend.Absent(s.Devices())
	}
	return galley.PlanStep(config, t)
}

// layoutFlags choose the layout of the step's tensors.
type layoutFlags struct {
	Plan  string   `help:"How the step is distributed: train, as galley train does, with stages, ZeRO and the rest; or, the step as one program on any mesh, the built-in annotations megatron, data or none, or auto, which searches for the cheapest." default:"train" enum:"train,megatron,data,none,auto"`
	Shard []string `help:"Layout of the parameters whose names match; it overrides --plan, and the first match counts. May be repeated." sep:"none" placeholder:"PATTERN=@[AXES]"`
}

// annotations returns the annotations of --shard.
func (c layoutFlags) annotations() (list []mesh.Annotation, err error) {
	for _, text := range c.Shard {
		a, err := mesh.ParseAnnotation(text)
		if err != nil {
			return nil, fmt.Errorf("--shard: %w", err)
		}
		list = append(list, a)
	}
	return list, nil
}

// spreadFlags are all flags that distribute a step over devices.
type spreadFlags struct {
	stepFlags
	strategyFlags
	layoutFlags
	Backend string `help:"Backend that train would use: cpu, or xla, whose devices run whole programs. It is not opened." default:"cpu" enum:"cpu,xla"`
}

// defaultMesh is the mesh of commands that are given none.
const defaultMesh = "dp=2,tp=2"

// planned returns the step as train runs it.
func (c spreadFlags) planned() (*galley.StepPlan, error) {
	if c.Plan != "train" {
		return nil, fmt.Errorf("--plan=%s: it is for a step as one program, without stages: leave it out", c.Plan)
	}
	shard, err := c.annotations()
	if err != nil {
		return nil, err
	}
	if c.Mesh == "" {
		c.Mesh = defaultMesh
	}
	s, err := c.strategy()
	if err != nil {
		return nil, err
	}
	if s == nil && len(shard) > 0 {
		s = &galley.Strategy{}
	}
	return c.plan(s, c.Backend != "cpu", shard)
}

// distribute distributes the step as one program on the mesh.
func (c spreadFlags) distribute(p *galley.Program) (*galley.Distributed, error) {
	if c.Mesh == "" {
		c.Mesh = defaultMesh
	}
	m, err := mesh.Parse(c.Mesh)
	if err != nil {
		return nil, fmt.Errorf("--mesh: %w", err)
	}
	if _, ok := m.Axis("pp"); ok {
		return nil, fmt.Errorf("--mesh=%s: one program has no stages, so that pp would be idle: "+
			"want --plan=train, or dump --after=stage", c.Mesh)
	}
	config := galley.DistributeConfig{Mesh: m, Next: distribute.StepNext(p)}
	if config.Annotations, err = c.annotations(); err != nil {
		return nil, err
	}
	switch c.Plan {
	case "auto":
		config.Choice = distribute.Searched
		return galley.Distribute(p, config)
	case "train": // it splits weights so, too
		c.Plan = "megatron"
	}
	rest, err := distribute.PlanAnnotations(c.Plan, p, m)
	if err != nil {
		return nil, fmt.Errorf("--plan: %w", err)
	}
	config.Annotations = append(config.Annotations, rest...)
	return galley.Distribute(p, config)
}

// onlyMesh returns an error if a flag has no effect on a step as one program.
func (c spreadFlags) onlyMesh(why string) error {
	if c.Backend != "cpu" {
		return fmt.Errorf(
			"--backend=%s: %s is the same for all: leave it out, or want --after=stage, --after=tape or "+
				"explain as train runs it",
			c.Backend,
			why,
		)
	}
	plain := strategyFlags{
		Mesh:      c.Mesh,
		Schedule:  "1f1b",
		CP:        "ring",
		Recompute: "none",
		AMP:       "off",
		Offload:   "none",
		Overlap:   "auto",
	}
	if c.strategyFlags != plain {
		return fmt.Errorf(
			"%s: the step is one program: of a strategy it takes --mesh alone: leave the rest out",
			why,
		)
	}
	return nil
}
