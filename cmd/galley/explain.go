package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/distribute"
)

// explainCmd prints what devices communicate in a training step, and why.
type explainCmd struct {
	spreadFlags
	Every  bool `help:"List communication that repeats each time; else once, with how often."`
	Strict bool `help:"Fail if devices communicate where no annotation asks for it."`
	JSON   bool `name:"json" help:"Print JSON."`
}

// Help returns the text that galley explain --help adds.
func (explainCmd) Help() string {
	return `It lists what galley train runs, stage by stage: collectives, and sends and receives between stages.
One row is one communication: the source line that it is for, what devices do, along which axes, how often in
a step, the bytes that the busiest device sends each time, the predicted time, whether somebody asked for it,
what moves, and who needed it. Then totals by stage, kind and axes, and what each device needs and does.
Nothing is computed: shapes are enough, for any number of devices.

With another --plan than train it is the step as one program on a mesh of any axes, with its annotations.

A pattern matches parameters' names as galley dump prints them: * is any text. @[tp,_] cuts dim 0 by axis tp
and keeps dim 1 whole; @[dp?,?] may be cut further.

Examples:
  galley explain                                              a small llama on 2×2
  galley explain --mesh dp=2,tp=2,pp=2 --micro 4 --zero 2     in two stages, with ZeRO
  galley explain --mesh dp=2,tp=2 --backend xla               as the devices of a backend run it
  galley explain --model llama-dir --seq 2048 --mesh dp=4,tp=8
  galley explain --plan data --mesh dp=8                      one program, the batch alone
  galley explain --plan auto --mesh dp=2,tp=4 --dim 512 --seq 256   as a search finds it, with how far from the best it may be
  galley explain --plan none --shard 'batch*=@[dp,?]' --shard '*.mlp.*_proj.weight=@[dp,_]'
  galley explain --strict                                     exit code 2 if anything was not asked for`
}

func (c *explainCmd) Run() error {
	if err := c.validate(); err != nil {
		return err
	}
	if c.Plan == "train" {
		return c.step()
	}
	if err := c.onlyMesh("--plan=" + c.Plan); err != nil {
		return err
	}
	p, err := c.program()
	if err != nil {
		return err
	}
	d, err := c.distribute(p)
	if err != nil {
		return err
	}
	if err := c.print(d); err != nil {
		return err
	}
	return c.allowed(d.Unasked())
}

// allowed returns an error if there is communication that no annotation requests and --strict forbids it.
func (c *explainCmd) allowed(unasked []distribute.Communication) error {
	if c.Strict && len(unasked) > 0 {
		return &distribute.UnaskedError{List: unasked}
	}
	return nil
}

// step explains the step as train runs it.
func (c *explainCmd) step() error {
	p, err := c.planned()
	if err != nil {
		return err
	}
	repeats := distribute.Merged
	if c.Every {
		repeats = distribute.Listed
	}
	e := distribute.ExplainStep(p.Strategy.String(), p.Step, repeats)
	if c.JSON {
		return errors.Join(c.json(struct {
			*distribute.StepExplanation
			MemoryBytes int `json:"memory_bytes"`
		}{e, p.Peak().Peak()}), c.allowed(e.UnaskedLines()))
	}
	if err := e.Write(os.Stdout); err != nil {
		return err
	}
	fmt.Println()
	return errors.Join(p.Cost().Write(os.Stdout), c.allowed(e.UnaskedLines()))
}

func (c *explainCmd) json(x any) error {
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(x)
}

func (c *explainCmd) print(d *galley.Distributed) error {
	e := d.Explain()
	if c.Every {
		e.Lines = d.Inserted()
	}
	device := d.Mesh().Devices()[0]
	m, err := d.Memory(device)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.json(struct {
			*distribute.Explanation
			MemoryBytes int `json:"memory_bytes"`
			ParamBytes  int `json:"param_bytes"`
		}{e, m.Peak(), m.Params})
	}
	if err := e.Write(os.Stdout); err != nil {
		return err
	}
	if r := d.Search(); r != nil {
		fmt.Println(r)
	}
	fmt.Printf("memory of device %d: %s, of which %s are parameters, optimizer state and batch\n", device,
		bytesText(m.Peak()), bytesText(m.Params))
	return nil
}

func bytesText(n int) string {
	switch {
	case n >= 1e9:
		return gigabytes(float64(n))
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(n)/1e3)
}
