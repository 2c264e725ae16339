package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/check"
	"github.com/galley-ml/galley/models"
)

type checkDevicesCmd struct {
	pluginFlags
	strategyFlags
	Layers  int           `help:"Blocks." default:"2"`
	Dim     int           `help:"Width." default:"256"`
	Heads   int           `help:"Attention heads." default:"8"`
	FFN     int           `name:"ffn" help:"Width of the feed-forward layers; 0 means 8/3 of --dim."`
	Vocab   int           `help:"Size of the vocabulary." default:"512"`
	Batch   int           `help:"Sequences in a step." default:"16"`
	Seq     int           `help:"Tokens in a sequence." default:"128"`
	Steps   int           `help:"Training steps." default:"5"`
	Timeout time.Duration `help:"How long each part may take; 0 is for ever." default:"3m"`
}

// Help returns the text that galley check devices --help adds.
func (checkDevicesCmd) Help() string {
	return `Trains a new llama on as many devices of an accelerator as --mesh says, as one program, in five
parts: the plugin opens, the parameters are made there, the step compiles, it runs, and its losses are within
1e-4 of the host's, in bf16 within 2e-2. Where something is wrong, the plugin's whole message is printed. With
--mock-devices, which needs one CUDA device, it compiles for as many as one likes; losses are not compared.
The last line counts: N passed, M failed. The exit code is 1 if any failed.

Examples:
  galley check devices --mesh dp=8 --zero 1
  galley check devices --mesh dp=2,tp=2,cp=2 --cp ulysses --sp --zero 3 --amp bf16
  galley check devices --mesh dp=4,tp=2 --mock-devices 8`
}

func (c *checkDevicesCmd) Run() error {
	err := positive(map[string]int{"layers": c.Layers, "dim": c.Dim, "heads": c.Heads, "vocab": c.Vocab,
		"batch": c.Batch, "seq": c.Seq, "steps": c.Steps})
	if err == nil && c.Dim%(2*c.Heads) != 0 {
		err = fmt.Errorf("--dim=%d: want a multiple of %d: --heads=%d of an even width", c.Dim, 2*c.Heads, c.Heads)
	}
	if err != nil {
		return err
	}
	s, err := c.strategy()
	if err != nil {
		return err
	}
	if s == nil {
		s = &galley.Strategy{}
	}
	d := galley.CPU(galley.Config{})
	defer d.Close()
	config := check.DevicesConfig{Device: d, Open: c.open, Strategy: *s, Model: c.model(), Batch: c.Batch,
		Seq: c.Seq, Steps: c.Steps, Mocked: c.MockDevices > 0, Timeout: c.Timeout}
	if c.AMP == "bf16" {
		config.Compute = array.BF16
	}
	r, err := check.Devices(os.Stdout, config)
	if errors.Is(err, check.ErrStuck) {
		return errFailed // the report shows where
	}
	return verdict(r, err)
}

func (c *checkDevicesCmd) model() models.Config {
	m := models.Config{Family: "llama", Vocab: c.Vocab, Hidden: c.Dim, Intermediate: c.FFN, Layers: c.Layers,
		Heads: c.Heads, InitStd: 0.02}
	if c.FFN == 0 {
		m.Intermediate = (c.Dim*8/3 + 63) / 64 * 64
	}
	return m
}
