package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/distribute"
)

// explainCmd says what the devices of a mesh exchange in a training step, and why.
type explainCmd struct {
	stepFlags
	meshFlags
	Every  bool `help:"List communication that repeats each time; else once, with how often."`
	Strict bool `help:"Communication that nobody asked for is an error."`
	JSON   bool `name:"json" help:"Print JSON."`
}

// Help is what galley explain --help adds.
func (explainCmd) Help() string {
	return `One row is one communication: the source line that it is for, what devices do, along which axes, how often, the bytes that the
busiest device sends each time, the predicted time, whether somebody asked for it, what moves, and who needed it. Then totals by kind
and axes, and the memory of a device. Nothing is computed: shapes are enough, for any number of devices.

A pattern matches parameters' names as galley dump prints them: * is any text. @[tp,_] cuts dim 0 by axis tp and keeps dim 1
whole; @[dp?,?] may be cut further.

Examples:
  galley explain                                              a small llama on 2×2, cut as Megatron does
  galley explain --model llama-dir --seq 2048 --mesh dp=4,tp=8
  galley explain --plan data --mesh dp=8                      the batch alone
  galley explain --plan auto --mesh dp=2,tp=4 --dim 512 --seq 256   as a search finds it, with how far from the best it may be
  galley explain --plan none --shard 'batch*=@[dp,?]' --shard '*.mlp.*_proj.weight=@[dp,_]'
  galley explain --strict                                     exit code 2 if anything was not asked for`
}

func (c *explainCmd) Run() error {
	if err := c.validate(); err != nil {
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
	if list := d.Unasked(); c.Strict && len(list) > 0 {
		return &distribute.UnaskedError{List: list}
	}
	return nil
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
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(struct {
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
