package main

import (
	"fmt"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// stepFlags say which training step a command is about. Only shapes are needed: nothing is computed.
type stepFlags struct {
	Model  string `help:"Hugging Face directory, of which only config.json is read, or tiny or small. Without it a llama of two heads." placeholder:"DIR|NAME"`
	Batch  int    `help:"Sequences in a step." default:"2"`
	Seq    int    `help:"Tokens in a sequence." default:"8"`
	Layers int    `help:"Blocks; 0 is those of the model, or one." placeholder:"N"`
	Dim    int    `help:"Width of the llama of two heads." default:"16"`
}

// byteVocab is the vocabulary of models that are made up: bytes.
const byteVocab = 256

func (c stepFlags) validate() error {
	if err := positive(map[string]int{"batch": c.Batch, "seq": c.Seq, "dim": c.Dim}); err != nil {
		return err
	}
	if err := natural(map[string]int{"layers": c.Layers}); err != nil {
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
			Family: "llama", Vocab: byteVocab, Hidden: c.Dim, Intermediate: 2 * c.Dim, Layers: 1, Heads: 2, Positions: c.Seq, Tied: true,
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

func (c stepFlags) program() (*galley.Program, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	model, err := models.New(config, nn.Config{})
	if err != nil {
		return nil, err
	}
	t := op.Type{DType: array.I32, Shape: array.Shape{c.Batch, c.Seq + 1}}
	return galley.TraceStep(galley.TrainerConfig{
		Params: model.Params(), ClipNorm: 1,
		Loss: func(batch []*op.Tensor) *op.Tensor { return nextToken(model, batch[0]) },
	}, t)
}

// meshFlags say the layout the step's tensors should have.
type meshFlags struct {
	Mesh  string   `help:"Devices, as axes with their sizes." default:"dp=2,tp=2"`
	Plan  string   `help:"Built-in annotations: megatron, data or none; auto searches for the cheapest." default:"megatron" enum:"megatron,data,none,auto"`
	Shard []string `help:"The layout parameters should have whose names match; before --plan, the first match counts. May be repeated." sep:"none" placeholder:"PATTERN=@[AXES]"`
}

// distribute places a step on the mesh.
func (c meshFlags) distribute(p *galley.Program) (*galley.Distributed, error) {
	m, err := mesh.Parse(c.Mesh)
	if err != nil {
		return nil, fmt.Errorf("--mesh: %w", err)
	}
	config := galley.DistributeConfig{Mesh: m, Next: distribute.StepNext(p)}
	for _, text := range c.Shard {
		a, err := mesh.ParseAnnotation(text)
		if err != nil {
			return nil, fmt.Errorf("--shard: %w", err)
		}
		config.Annotations = append(config.Annotations, a)
	}
	if c.Plan == "auto" {
		config.Choice = distribute.Searched
		return galley.Distribute(p, config)
	}
	rest, err := distribute.PlanAnnotations(c.Plan, p, m)
	if err != nil {
		return nil, fmt.Errorf("--plan: %w", err)
	}
	config.Annotations = append(config.Annotations, rest...)
	return galley.Distribute(p, config)
}
