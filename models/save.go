package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/op"
)

// SaveConfig says how a model is written.
type SaveConfig struct {
	// ShardBytes is how much one file holds at most; 0 means 5 GB.
	ShardBytes int64
	// Tokenizer, where set, is the text of the tokenizer.json to write beside the model.
	Tokenizer []byte
	// Read brings a parameter's data to the host; nil reads eager tensors.
	Read func(x *op.Tensor) (array.Array, error)
}

const defaultShard = 5_000_000_000

// Save writes a model as a Hugging Face directory, of which there is the old one or the new one at any
// moment: it is written beside the old one, with what else lies there, and takes its place by one rename.
// Where the system cannot do that (a mount point, the working directory, a parent that cannot be written),
// files take their places one by one, config.json last. After an error nothing is left of the new one, nor a
// directory that was not there before.
func Save(dir string, m Model, c SaveConfig) error {
	if c.ShardBytes == 0 {
		c.ShardBytes = defaultShard
	}
	if c.Read == nil {
		c.Read = cpu.Read
	}
	if d, ok := m.(*decoder); ok && d.adapter != nil {
		return fmt.Errorf("models: save %s: the model has adapters: SaveAdapter writes them, Merge makes them weights", dir)
	}
	config := m.Config()
	var tensors []safetensors.Named
	for _, p := range m.Params() {
		if p.Value == nil {
			return fmt.Errorf("models: save %s: parameter %q has no value", dir, p.Name)
		}
		a, err := c.Read(p.Value)
		if err != nil {
			return fmt.Errorf("models: save %s: parameter %q: %w", dir, p.Name, err)
		}
		config.DType = a.DType()
		tensors = append(tensors, stored(config, p.Name, a)...)
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
		return safetensors.WriteDir(fresh, tensors, c.ShardBytes, map[string]string{"format": "pt"})
	})
	if err != nil {
		return fmt.Errorf("models: save: %w", err)
	}
	return nil
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
