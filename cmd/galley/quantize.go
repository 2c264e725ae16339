package main

import (
	"fmt"
	"path/filepath"

	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
)

// quantizeCmd writes a model with quantized matrices.
type quantizeCmd struct {
	Dir string `arg:"" help:"Hugging Face directory of the model, its GGUF file, or directory of a run's checkpoints." type:"path"`
	Out string `arg:"" help:"Directory to write, or a file that ends in .gguf." type:"path"`
	checkpointChoice
	Weights string `help:"Integers of 8 or 4 bits, int8 or int4; into a GGUF file q4_k, f16, bf16 and f32 too." enum:"int8,int4,q4_k,f16,bf16,f32" default:"int4"`
	Group   int    `help:"How many neighbours of a row have one scale: 32, 64 or 128." default:"32"`
	Method  string `help:"How integers are chosen: rtn rounds to the nearest; gptq makes up for errors on a text; awq keeps more of what meets large inputs there." enum:"rtn,gptq,awq" default:"rtn"`

	Calibrate string `help:"Text for --method gptq and awq; without it Moby-Dick." type:"existingfile" placeholder:"FILE"`
	Windows   int    `help:"How many parts of the text gptq and awq see." default:"64"`
	Window    int    `help:"Tokens in a part." default:"128"`
}

// Help returns the text that galley quantize --help adds.
func (quantizeCmd) Help() string {
	return `The matrices of a model's layers become integers, one scale for --group neighbours of a row; the
table of tokens, the head, routers and norms stay as they are. The directory is in the form of
compressed-tensors (pack-quantized), which galley generate and vLLM read. A file that ends in .gguf is in
llama.cpp's (Q8_0, Q4_0, Q4_K, F16, BF16, F32); q4_k writes matrices whose rows are no whole blocks of 256 as Q8_0,
and says how many.

Examples:
  galley quantize llama-3-8b llama-3-8b-int4
  galley quantize llama-3-8b llama-3-8b-int4 --method gptq --calibrate notes.txt
  galley quantize llama-3-8b llama-3-8b.gguf --method awq
  galley quantize run small --best --weights int8 --group 64
  galley quantize llama-3-8b llama-3-8b.gguf --weights int8
  galley quantize llama-3-8b llama-3-8b.gguf --weights q4_k`
}

func (c *quantizeCmd) Run() error {
	if c.Group != 32 && c.Group != 64 && c.Group != 128 {
		return fmt.Errorf("--group=%d: want 32, 64 or 128", c.Group)
	}
	file := models.IsGGUF(c.Out)
	if err := c.validate(file); err != nil {
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
	t, err := openTokenizer("", m.dir)
	if err != nil {
		return err
	}
	config := models.QuantizeConfig{Bits: c.bits(), Group: c.Group, Read: read, Tokenizer: t.text}
	if c.Method != "rtn" {
		seen, err := c.calibrate(shape, read, t)
		if err != nil {
			return err
		}
		config.Round = seen.compensated
		if c.Method == "awq" {
			a, err := models.NewAWQ(shape, read, seen.squares, quant.Config{Bits: c.bits(), Group: c.Group})
			if err != nil {
				return err
			}
			config.Read, config.Round = a.Read, a.Round
		}
	}
	if file {
		err = models.SaveGGUF(
			c.Out,
			shape,
			models.GGUFConfig{Weights: c.Weights, Read: config.Read, Round: config.Round,
				Tokenizer: t.text},
		)
	} else {
		err = models.SaveQuantized(c.Out, shape, config)
	}
	if err != nil {
		return err
	}
	fmt.Printf("wrote %s: %s, from %s\n", c.Out, c.form(), m.name())
	return c.tellUneven(shape)
}

// tellUneven prints how many matrices do not fit the Q4_K format.
func (c *quantizeCmd) tellUneven(m models.Model) error {
	if c.Weights != "q4_k" {
		return nil
	}
	linears, err := models.Linears(m)
	if err != nil {
		return err
	}
	n := 0
	for _, p := range linears {
		if !models.WholeQ4K(p) {
			n++
		}
	}
	if n > 0 {
		fmt.Printf("%d of %d matrices are Q8_0: their rows are no whole blocks of 256\n", n, len(linears))
	}
	return nil
}

func (c *quantizeCmd) validate(file bool) error {
	if err := positive(map[string]int{"windows": c.Windows, "window": c.Window}); err != nil {
		return err
	}
	switch {
	case c.Calibrate != "" && c.Method == "rtn":
		return fmt.Errorf("--calibrate=%s: it is for --method gptq and awq", c.Calibrate)
	case c.Method != "rtn" && c.bits() == 0:
		return fmt.Errorf("--method=%s: it is for integers: want --weights int8 or int4", c.Method)
	case file && c.Group != 32:
		return fmt.Errorf("--group=%d: want 32 for a GGUF file", c.Group)
	case !file && c.bits() == 0:
		return fmt.Errorf("--weights=%s: want int8 or int4, or a file that ends in .gguf", c.Weights)
	case file:
		return writable(filepath.Dir(c.Out))
	}
	return writable(c.Out)
}

// form returns the format of the quantized matrices, for printing.
func (c *quantizeCmd) form() string {
	if c.bits() == 0 {
		return c.Weights
	}
	return fmt.Sprintf("%s in groups of %d, %s", c.Weights, c.Group, c.Method)
}

// bits returns the bits of an integer format; 0 for floats.
func (c *quantizeCmd) bits() int { return map[string]int{"int8": 8, "int4": 4}[c.Weights] }
