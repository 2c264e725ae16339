package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// checkpointChoice chooses a checkpoint of a run.
type checkpointChoice struct {
	From int64 `help:"Take the checkpoint of this step in place of the newest." placeholder:"STEP"`
	Best bool  `help:"Take the checkpoint with the least loss on held-out text (train --valid-every)."`
}

// modelDir is a model's source: a Hugging Face directory, a GGUF file, or a checkpoint of a run, whose config
// and tokenizer are beside its checkpoints.
type modelDir struct {
	// dir has config.json and perhaps tokenizer.json, or is the path of a GGUF file.
	dir string
	r   *checkpoint.Reader // nil for a Hugging Face directory
	w   *models.Weights    // of a Hugging Face directory, while weights are read one at a time
	// adapter, if not empty, is a PEFT directory whose adapter is merged into the weights.
	adapter string
}

// keptModel is the subdirectory of a run that holds its config and tokenizer.
const keptModel = "model"

// openModelDir opens a model's source. Close closes it.
func openModelDir(path string, c checkpointChoice) (*modelDir, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.IsDir() && !models.IsGGUF(path) {
		return nil, fmt.Errorf("%s: want a directory, or a file that ends in .gguf", path)
	}
	if !isRun(path) {
		if c.From > 0 || c.Best {
			return nil, fmt.Errorf("--from, --best: %s has no checkpoints: they are for those of galley train "+
				"--checkpoint", path)
		}
		if models.IsAdapter(path) {
			base, err := models.AdapterBase(path)
			return &modelDir{dir: base, adapter: path}, err
		}
		return &modelDir{dir: path}, nil
	}
	r, err := openChosen(path, c)
	if err != nil {
		return nil, err
	}
	run := path
	if r.Path() == filepath.Clean(path) {
		run = filepath.Dir(r.Path()) // path names the checkpoint itself
	}
	return &modelDir{dir: filepath.Join(run, keptModel), r: r}, nil
}

// isRun reports whether a path is a directory of checkpoints or one checkpoint, not a Hugging Face directory.
func isRun(path string) bool {
	if _, err := os.Stat(filepath.Join(path, "config.json")); err == nil {
		return false
	}
	if _, err := os.Stat(filepath.Join(path, "manifest.json")); err == nil {
		return true
	}
	steps, _ := filepath.Glob(filepath.Join(path, "step-*"))
	return len(steps) > 0
}

func openChosen(path string, c checkpointChoice) (*checkpoint.Reader, error) {
	switch {
	case c.From < 0:
		return nil, fmt.Errorf("--from=%d: want the step of a checkpoint", c.From)
	case c.From > 0 && c.Best:
		return nil, fmt.Errorf("--from=%d and --best: want one of them", c.From)
	case c.From > 0:
		return checkpoint.OpenStep(path, c.From, checkpoint.OpenConfig{})
	case c.Best:
		return checkpoint.OpenBest(path, "valid_loss", checkpoint.OpenConfig{})
	}
	return checkpoint.Open(path, checkpoint.OpenConfig{})
}

// config returns the model's configuration.
func (m *modelDir) config() (models.Config, error) {
	config, err := models.ReadConfig(m.dir)
	if m.r != nil && errors.Is(err, fs.ErrNotExist) {
		return config, fmt.Errorf("%s: its run kept no config: %w: give the model's Hugging Face directory with "+
			"--model", m.r.Path(), err)
	}
	return config, err
}

// load returns the model with its weights.
func (m *modelDir) load(c nn.Config) (models.Model, error) {
	if m.adapter != "" {
		return m.merged(c)
	}
	if m.r == nil {
		return models.Load(m.dir, c)
	}
	config, err := m.config()
	if err != nil {
		return nil, err
	}
	host, ok := c.Scope.(models.Host)
	if !ok {
		return nil, fmt.Errorf("%s: weights cannot be put into a %T", m.r.Path(), c.Scope)
	}
	c.Load = func(name string, t op.Type) (*op.Tensor, error) {
		a, err := m.read(&nn.Param{Name: name, Type: t})
		if err != nil {
			return nil, err
		}
		x := host.Tensor(a)
		if a.DType() != t.DType {
			x = op.Cast(x, t.DType)
		}
		return x, nil
	}
	model, err := models.New(config, c)
	if err != nil || !models.IsAdapter(m.dir) {
		return model, err
	}
	return model, m.adapt(model, c)
}

// weights returns the model without values, and a function that reads each value until done is called.
func (m *modelDir) weights() (model models.Model, read func(p *nn.Param) (array.Array, error), done func(),
	err error) {
	if m.adapted() {
		return m.mergedWeights()
	}
	if m.r == nil {
		w, err := models.Open(m.dir)
		if err != nil {
			return nil, nil, nil, err
		}
		m.w = w
		return w.Model, w.Read, func() { w.Close() }, nil
	}
	config, err := m.config()
	if err != nil {
		return nil, nil, nil, err
	}
	model, err = models.New(config, nn.Config{})
	return model, m.read, func() {}, err
}

// bytesAs returns the least memory of the weights in a format; empty is the format that they are stored in.
func (m *modelDir) bytesAs(weights string, config models.Config) float64 {
	n := parameters(config)
	switch each, ok := map[string]float64{"f32": 4, "bf16": 2, "int8": 1.06, "int4": 0.56}[weights]; {
	case ok:
		return each * n
	case models.IsGGUF(m.dir) || models.IsQuantized(m.dir):
		return 0.5 * n
	case config.DType == array.BF16:
		return 2 * n
	}
	return 4 * n
}

// grouped returns a matrix that is stored as integers, after weights was called; ok is false for others.
func (m *modelDir) grouped(p *nn.Param) (g quant.Matrix, ok bool, err error) {
	if m.w == nil {
		return g, false, nil
	}
	return m.w.Grouped(p)
}

// read returns a parameter of a checkpoint.
func (m *modelDir) read(p *nn.Param) (array.Array, error) {
	got, ok := m.r.Type(p.Name)
	if !ok || !got.Shape.Equal(p.Type.Shape) {
		return array.Array{}, fmt.Errorf("%s: %s: got %v, want %v: it is of another model", m.r.Path(), p.Name, got,
			p.Type)
	}
	return m.r.ReadWhole(p.Name)
}

// name returns the model's name for printed text.
func (m *modelDir) name() string {
	if m.r != nil {
		return m.r.Path()
	}
	return m.dir
}

func (m *modelDir) close() {
	if m.r != nil {
		m.r.Close()
	}
}

// keepModel writes the files that an export needs besides checkpoints into a run's directory, unless they
// exist: Resume has checked that they are the same.
func (t *training) keepModel() error {
	dir := filepath.Join(t.Checkpoint, keptModel)
	text, err := json.MarshalIndent(t.model.Config(), "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	if err == nil {
		err = writeOnce(filepath.Join(dir, "config.json"), append(text, '\n'))
	}
	if _, ok := models.Adapted(t.model); ok && err == nil {
		err = t.keepAdapter(dir)
	}
	if err == nil && t.tokenizer.text != nil {
		err = writeOnce(filepath.Join(dir, "tokenizer.json"), t.tokenizer.text)
	}
	if err != nil {
		return fmt.Errorf("--checkpoint: %w", err)
	}
	return nil
}

// writeOnce writes a file unless it exists, atomically.
func writeOnce(path string, text []byte) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(temp, text, 0o666); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
