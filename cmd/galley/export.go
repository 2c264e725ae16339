package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// exportCmd writes a checkpoint in Hugging Face's format.
type exportCmd struct {
	Checkpoint string `arg:"" help:"Directory of a run's checkpoints, or one checkpoint in it." type:"existingdir"`
	Dir        string `arg:"" help:"Directory to write." type:"path"`
	checkpointChoice
	Model     string `help:"Hugging Face directory to take config.json and tokenizer.json from, for a run that did not keep them." type:"existingdir" placeholder:"DIR"`
	DType     string `name:"dtype" help:"What weights are written as: f32, bf16 or f16." default:"f32" enum:"f32,bf16,f16"`
	ShardSize string `help:"How much one file of weights holds at most, such as 500MB; what is more becomes several with an index." default:"5GB" placeholder:"SIZE"`
}

// Help returns the text that galley export --help adds.
func (exportCmd) Help() string {
	return `Examples:
  galley train --checkpoint run                 a run, which may still go on
  galley export run out                         its newest checkpoint as out/config.json, out/model.safetensors …
  galley export run out --best --dtype bf16     the one with the least held-out loss, in half the room
  galley export run out --shard-size 2GB        in files of 2 GB and model.safetensors.index.json
  galley export run/step-00000200 out           that of a step; --from 200 does the same`
}

func (c *exportCmd) Run() error {
	if !isRun(c.Checkpoint) {
		return fmt.Errorf("%s: no checkpoint: want a directory of galley train --checkpoint", c.Checkpoint)
	}
	shard, err := cluster.Bytes(c.ShardSize)
	if err != nil || shard < 1 {
		return fmt.Errorf("--shard-size=%s: want a size such as 5GB or 512MiB", c.ShardSize)
	}
	if err := writable(c.Dir); err != nil {
		return err
	}
	m, err := openModelDir(c.Checkpoint, c.checkpointChoice)
	if err != nil {
		return err
	}
	defer m.close()
	if c.Model != "" {
		m.dir = c.Model
	}
	config, err := m.config()
	if err != nil {
		return err
	}
	if err := fits(c.Checkpoint, 4*parameters(config)); err != nil {
		return err
	}
	tokenizer, err := os.ReadFile(filepath.Join(m.dir, "tokenizer.json"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	d := galley.CPU(galley.Config{})
	defer d.Close()
	dtype := map[string]array.DType{"f32": array.F32, "bf16": array.BF16, "f16": array.F16}[c.DType]
	model, err := m.load(nn.Config{Scope: d.NewSession(), DType: dtype, Frozen: true})
	if err != nil {
		return err
	}
	if err := models.Save(c.Dir, model, models.SaveConfig{Tokenizer: tokenizer,
		ShardBytes: int64(shard)}); err != nil {
		return err
	}
	fmt.Printf("wrote %s: the model after %d steps, from %s\n", c.Dir, m.r.Meta().Step, m.r.Path())
	return nil
}
