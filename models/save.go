package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
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
	// Read brings a parameter's data to the host; nil reads eager tensors.
	Read func(x *op.Tensor) (array.Array, error)
}

const defaultShard = 5_000_000_000

// Save writes a model as a Hugging Face directory. Every file takes its place by a rename, config.json last.
func Save(dir string, m Model, c SaveConfig) error {
	if c.ShardBytes == 0 {
		c.ShardBytes = defaultShard
	}
	if c.Read == nil {
		c.Read = cpu.Read
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
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("models: save: %w", err)
	}
	return writeAll(dir, config, tensors, c.ShardBytes)
}

// writeAll has the configuration whole on disk before the weights change.
func writeAll(dir string, config Config, tensors []safetensors.Named, limit int64) error {
	text, err := indented(config)
	if err != nil {
		return fmt.Errorf("models: save %s: %w", dir, err)
	}
	staged, err := stage(dir, text)
	if err != nil {
		return fmt.Errorf("models: save %s: %w", dir, err)
	}
	defer os.Remove(staged)
	if err := safetensors.WriteDir(dir, tensors, limit, map[string]string{"format": "pt"}); err != nil {
		return fmt.Errorf("models: save: %w", err)
	}
	if err := os.Rename(staged, filepath.Join(dir, configName)); err != nil {
		return fmt.Errorf("models: save: %w", err)
	}
	return nil
}

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

// stage writes text to a new file in dir and returns its name.
func stage(dir string, text []byte) (name string, err error) {
	f, err := os.CreateTemp(dir, "."+configName+".*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	for _, step := range []func() error{f.Sync, func() error { return f.Chmod(0o644) }, f.Close} {
		if e := step(); err == nil {
			err = e
		}
	}
	return f.Name(), err
}
