package main

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// dumpCmd prints the program of a training step.
type dumpCmd struct {
	After  string `help:"Pass to stop after: trace, fold, merge, prune." default:"prune" enum:"trace,fold,merge,prune"`
	Model  string `help:"Hugging Face directory; only its config.json is read. Without it a small llama." type:"existingdir" placeholder:"DIR"`
	Batch  int    `help:"Sequences in a step." default:"2"`
	Seq    int    `help:"Tokens in a sequence." default:"8"`
	Layers int    `help:"Blocks of the small model." default:"1"`
	Dim    int    `help:"Width of the small model." default:"16"`
}

// Help is what galley dump --help adds.
func (dumpCmd) Help() string {
	return `Examples:
  galley dump --after=trace                the step as it was traced, with the line that made each op
  galley dump --after=prune --layers 2     what runs
  galley dump --model llama-dir --seq 128  the step of a Hugging Face model`
}

func (c *dumpCmd) Run() error {
	if err := positive(map[string]int{"batch": c.Batch, "seq": c.Seq, "layers": c.Layers, "dim": c.Dim}); err != nil {
		return err
	}
	if c.Model == "" && c.Dim%4 != 0 {
		return fmt.Errorf("--dim=%d: want a multiple of 4: the small model has two heads of an even width", c.Dim)
	}
	p, err := c.program()
	if err != nil {
		return err
	}
	if c.After != "trace" {
		if p, err = pass.Until(p, c.After, nil); err != nil {
			return err
		}
	}
	fmt.Print(strings.TrimRight(p.String(), "\n") + "\n")
	return nil
}

func (c *dumpCmd) program() (*galley.Program, error) {
	config := models.Config{
		Family: "llama", Vocab: 256, Hidden: c.Dim, Intermediate: 2 * c.Dim, Layers: c.Layers, Heads: 2,
		Positions: c.Seq, Tied: true,
	}
	if c.Model != "" {
		var err error
		if config, err = models.ReadConfig(c.Model); err != nil {
			return nil, err
		}
		if err = longEnough(config, c.Seq); err != nil {
			return nil, err
		}
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
