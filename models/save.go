package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	// Tokenizer, where set, is the text of the tokenizer.json to write beside the model.
	Tokenizer []byte
	// Read brings a parameter's data to the host; nil reads eager tensors.
	Read func(x *op.Tensor) (array.Array, error)
}

const defaultShard = 5_000_000_000

// Save writes a model as a Hugging Face directory. Every file takes its place by a rename, config.json last; after an
// error no part of a file is left, nor a directory that was not there before.
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
	text, err := indented(config)
	if err != nil {
		return fmt.Errorf("models: save %s: %w", dir, err)
	}
	beside := []file{{configName, text}}
	if c.Tokenizer != nil {
		beside = []file{{tokenizerName, c.Tokenizer}, {configName, text}}
	}
	made := missing(dir)
	err = os.MkdirAll(dir, 0o777)
	if err == nil {
		err = writeAll(dir, beside, tensors, c.ShardBytes)
	}
	if err != nil {
		for _, d := range made {
			os.Remove(d) // only if it is empty
		}
		return fmt.Errorf("models: save: %w", err)
	}
	return nil
}

// missing is the directories that making dir makes, the deepest first.
func missing(dir string) []string {
	var made []string
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			return made
		}
		made = append(made, dir)
		dir = filepath.Dir(dir)
	}
}

const tokenizerName = "tokenizer.json"

// file is a small file that stands beside the weights.
type file struct {
	name string
	text []byte
}

// writeAll has the small files whole on disk before the weights change.
func writeAll(dir string, beside []file, tensors []safetensors.Named, limit int64) error {
	staged := make([]string, len(beside))
	for i, f := range beside {
		name, err := stage(dir, f)
		if err != nil {
			return err
		}
		defer os.Remove(name)
		staged[i] = name
	}
	if err := safetensors.WriteDir(dir, tensors, limit, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	for i, f := range beside {
		if err := os.Rename(staged[i], filepath.Join(dir, f.name)); err != nil {
			return err
		}
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

// stage writes a file under another name in dir and returns that name.
func stage(dir string, what file) (name string, err error) {
	f, err := os.CreateTemp(dir, "."+what.name+".*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(what.text)
	for _, step := range []func() error{f.Sync, func() error { return f.Chmod(0o644) }, f.Close} {
		if e := step(); err == nil {
			err = e
		}
	}
	return f.Name(), err
}
