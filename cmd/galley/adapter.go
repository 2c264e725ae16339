package main

import (
	"fmt"
	"path/filepath"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// adapted reports whether the model has an adapter, which load merges into its weights.
func (m *modelDir) adapted() bool { return m.adapter != "" || m.r != nil && models.IsAdapter(m.dir) }

// merged returns the base model of an adapter with the adapter merged into its weights.
func (m *modelDir) merged(c nn.Config) (models.Model, error) {
	model, err := models.Load(m.dir, c)
	if err != nil {
		return nil, fmt.Errorf("%s: its base model: %w", m.adapter, err)
	}
	if err := models.LoadAdapter(m.adapter, model, c); err != nil {
		return nil, err
	}
	return model, models.Merge(model)
}

// adapt adds the adapters of a run's checkpoint to the model and merges them into its weights.
func (m *modelDir) adapt(model models.Model, c nn.Config) error {
	if err := models.AdaptAs(m.dir, model, c); err != nil {
		return err
	}
	for _, p := range nn.Trainable(model.Params()) {
		x, err := c.Load(p.Name, p.Type)
		if err != nil {
			return err
		}
		p.Value = x.Detach()
	}
	return models.Merge(model)
}

// mergedWeights is like weights, for a model whose adapter is merged into its weights.
func (m *modelDir) mergedWeights() (models.Model, func(p *nn.Param) (array.Array, error), func(), error) {
	d := galley.CPU(galley.Config{})
	model, err := m.load(nn.Config{Scope: d.NewSession(), Frozen: true})
	if err != nil {
		d.Close()
		return nil, nil, nil, err
	}
	values := map[string]*nn.Param{}
	for _, p := range model.Params() {
		values[p.Name] = p
	}
	read := func(p *nn.Param) (array.Array, error) {
		own, ok := values[p.Name]
		if !ok {
			return array.Array{}, fmt.Errorf("%s: no parameter %q", m.name(), p.Name)
		}
		return cpu.Read(own.Value)
	}
	shape, err := models.New(model.Config(), nn.Config{})
	return shape, read, d.Close, err
}

// keepAdapter writes the configuration of the run's adapters to dir, beside the model's config.
func (t *training) keepAdapter(dir string) error {
	text, err := models.AdapterText(t.model)
	if err != nil {
		return err
	}
	return writeOnce(filepath.Join(dir, "adapter_config.json"), text)
}
