package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// SaveConfig configures how a model is written.
type SaveConfig struct {
	// ShardBytes is the maximal size of one file; 0 means 5 GB.
	ShardBytes int64
	// Tokenizer, if set, is the text of the tokenizer.json to write beside the model.
	Tokenizer []byte
	// Read copies a parameter's data to the host; nil reads eager tensors.
	Read func(x *op.Tensor) (array.Array, error)
	// Each, if set, returns the values of all parameters, one after the other, such as Trainer.ReadParams: the
	// parameters need no values then, and at most one of them is in memory at a time.
	Each func(f func(p *nn.Param, value array.Array) error) error
}

const defaultShard = 5_000_000_000

// Save writes a model as a Hugging Face directory. At any moment, either the old or the new one is complete:
// the new one is written beside the old one, with the old one's other files, and replaces it with one rename.
// If the system cannot do that (a mount point, the working directory, a parent that is not writable), files
// are moved one by one, config.json last. After an error nothing is left of the new one, nor a directory that
// was not there before.
func Save(dir string, m Model, c SaveConfig) error {
	if c.ShardBytes == 0 {
		c.ShardBytes = defaultShard
	}
	if c.Read == nil {
		c.Read = cpu.Read
	}
	if d, ok := m.(*decoder); ok && d.adapter != nil {
		return fmt.Errorf("models: save %s: the model has adapters: SaveAdapter writes them, Merge makes them "+
			"weights", dir)
	}
	config := m.Config()
	write, err := c.writer(m, &config)
	if err != nil {
		return fmt.Errorf("models: save %s: %w", dir, err)
	}
	text, err := indented(config)
	if err != nil {
		return fmt.Errorf("models: save %s: %w", dir, err)
	}
	files := map[string][]byte{configName: text}
	if c.Tokenizer != nil {
		files[tokenizerName] = c.Tokenizer
	}
	err = replaceDir(dir, func(fresh string) error {
		for name, text := range files {
			if err := writeFile(filepath.Join(fresh, name), text); err != nil {
				return err
			}
		}
		return write(fresh)
	})
	if err != nil {
		return fmt.Errorf("models: save: %w", err)
	}
	return nil
}

// writer returns a function that writes the weights to a directory, and sets their dtype in config.
func (c SaveConfig) writer(m Model, config *Config) (func(dir string) error, error) {
	metadata := map[string]string{"format": "pt"}
	if c.Each != nil {
		var types []safetensors.Typed
		for _, p := range m.Params() {
			config.DType = p.Type.DType
			types = append(types, storedTypes(*config, p)...)
		}
		return func(dir string) error {
			return safetensors.StreamDir(dir, types, c.ShardBytes, metadata, c.stream(*config))
		}, nil
	}
	var tensors []safetensors.Named
	for _, p := range m.Params() {
		if p.Value == nil {
			return nil, fmt.Errorf("parameter %q has no value", p.Name)
		}
		a, err := c.Read(p.Value)
		if err != nil {
			return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		config.DType = a.DType()
		tensors = append(tensors, stored(*config, p.Name, a)...)
	}
	return func(dir string) error { return safetensors.WriteDir(dir, tensors, c.ShardBytes, metadata) }, nil
}

// stream passes every parameter, in the form of checkpoints, to put.
func (c SaveConfig) stream(config Config) func(put func(safetensors.Named) error) error {
	return func(put func(safetensors.Named) error) error {
		return c.Each(func(p *nn.Param, value array.Array) error {
			for _, t := range stored(config, p.Name, value) {
				if err := put(t); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

const tokenizerName = "tokenizer.json"

func indented(config Config) ([]byte, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
