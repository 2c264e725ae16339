package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley/models"
)

// quantizeCmd writes a model whose matrices are small integers.
type quantizeCmd struct {
	Dir string `arg:"" help:"Hugging Face directory of the model, or directory of a run's checkpoints." type:"existingdir"`
	Out string `arg:"" help:"Directory to write." type:"path"`
	checkpointChoice
	Weights string `help:"Integers of 8 or 4 bits: int8 or int4." enum:"int8,int4" default:"int4"`
	Group   int    `help:"How many neighbours of a row have one scale: 32, 64 or 128." default:"32"`
	Method  string `help:"How integers are chosen: rtn rounds to the nearest." enum:"rtn" default:"rtn"`
}

// Help is what galley quantize --help adds.
func (quantizeCmd) Help() string {
	return `The matrices of a model's layers become integers, one scale for --group neighbours of a row; the table of tokens, the head, routers and norms
stay as they are. The directory is in the form of compressed-tensors (pack-quantized), which galley generate and vLLM read.

Examples:
  galley quantize llama-3-8b llama-3-8b-int4
  galley quantize run small --best --weights int8 --group 64`
}

func (c *quantizeCmd) Run() error {
	if c.Group != 32 && c.Group != 64 && c.Group != 128 {
		return fmt.Errorf("--group=%d: want 32, 64 or 128", c.Group)
	}
	if err := writable(c.Out); err != nil {
		return err
	}
	m, err := openModelDir(c.Dir, c.checkpointChoice)
	if err != nil {
		return err
	}
	defer m.close()
	shape, read, done, err := m.weights()
	if err != nil {
		return err
	}
	defer done()
	tokenizer, err := os.ReadFile(filepath.Join(m.dir, "tokenizer.json"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	err = models.SaveQuantized(c.Out, shape, models.QuantizeConfig{Bits: c.bits(), Group: c.Group, Read: read,
		Tokenizer: tokenizer})
	if err != nil {
		return err
	}
	fmt.Printf("wrote %s: %s in groups of %d, from %s\n", c.Out, c.Weights, c.Group, m.name())
	return nil
}

func (c *quantizeCmd) bits() int { return map[string]int{"int8": 8, "int4": 4}[c.Weights] }
