package models

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// AdapterConfig describes which layers get an adapter, and of what kind. With only Rank set it is LoRA on
// every linear layer except the head and routers.
type AdapterConfig struct {
	// Rank is the inner size of the low-rank update. Alpha determines its scale, Alpha/Rank; 0 means Rank, a
	// scale of 1.
	Rank  int
	Alpha float64
	// DoRA also learns the magnitudes of rows.
	DoRA bool
	// RankStabilized divides Alpha by the square root of the rank instead of the rank [Kalajdzievski 2023].
	RankStabilized bool
	// Dropout is the dropout rate of the adapters' inputs in training.
	Dropout float64
	// Targets holds the last parts of the layers' names, such as q_proj; none means all layers.
	Targets []string
	// Ranks and Alphas override Rank and Alpha for layers whose name ends with the key.
	Ranks  map[string]int
	Alphas map[string]float64
}

// adaptation holds the adapters of a model.
type adaptation struct {
	config AdapterConfig
	list   []adapted
}

type adapted struct {
	name    string
	layer   nn.Adaptable
	adapter *nn.Adapter
	config  nn.AdapterConfig
}

// Adapt adds adapters to a model's layers; in describes how their values are initialized. The model's
// existing parameters are frozen. The model computes the same as before until the adapters are trained. Call
// it before Arrange.
func Adapt(m Model, c AdapterConfig, in nn.Config) error {
	d, err := adaptableModel(m)
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if c.DoRA && d.quantized != nil {
		return fmt.Errorf("models: adapter: DoRA needs the lengths of rows of floats: the weights are integers: " +
			"want LoRA")
	}
	a := &adaptation{config: c}
	found := map[string]bool{}
	for _, l := range d.linear {
		name := layerName(l)
		target := c.target(name)
		if target == "" {
			continue
		}
		found[target] = true
		a.list = append(a.list, adapted{name: name, layer: l, config: c.layer(name, in)})
	}
	for _, t := range c.Targets {
		if !found[t] {
			return fmt.Errorf("models: adapter: target %q names no linear layer of %s: it has %s", t, d.config.Family,
				strings.Join(layerKinds(d), ", "))
		}
	}
	return d.adopt(a)
}

func adaptableModel(m Model) (*decoder, error) {
	d, ok := m.(*decoder)
	switch {
	case !ok:
		return nil, fmt.Errorf("models: adapter for a %T: want a model of this package", m)
	case d.adapter != nil:
		return nil, fmt.Errorf("models: adapter: the model has adapters already: Merge them first")
	case len(d.linear) == 0:
		return nil, fmt.Errorf("models: adapter: %s has no linear layers that it could change", d.config.Family)
	}
	return d, nil
}

func (c AdapterConfig) check() error {
	switch {
	case c.Rank < 1:
		return fmt.Errorf("models: adapter: rank: got %d, want at least 1", c.Rank)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return fmt.Errorf("models: adapter: dropout: got %v, want 0 to less than 1", c.Dropout)
	case c.Alpha < 0 || math.IsNaN(c.Alpha) || math.IsInf(c.Alpha, 0):
		return fmt.Errorf("models: adapter: alpha: got %v, want a positive number", c.Alpha)
	}
	return nil
}

// layerName returns a layer's name: that of its weights without the last part.
func layerName(l nn.Adaptable) string { return strings.TrimSuffix(l.Matrix().Name, ".weight") }

// layerKinds returns the distinct last parts of the layers' names.
func layerKinds(d *decoder) (kinds []string) {
	for _, l := range d.linear {
		name := layerName(l)
		if kind := name[strings.LastIndex(name, ".")+1:]; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// target returns the target that matches a layer; empty if none does. Without targets, every layer except
// heads and routers is its own target.
func (c AdapterConfig) target(name string) string {
	for _, t := range c.Targets {
		if name == t || strings.HasSuffix(name, "."+t) {
			return t
		}
	}
	if len(c.Targets) > 0 || !strings.Contains(name, ".") || strings.HasSuffix(name, ".gate") {
		return ""
	}
	return name
}

// layer returns the adapter configuration of a layer.
func (c AdapterConfig) layer(name string, in nn.Config) nn.AdapterConfig {
	alpha := c.Alpha
	if alpha == 0 {
		alpha = float64(c.Rank)
	}
	rank := ending(c.Ranks, name, c.Rank)
	alpha = ending(c.Alphas, name, alpha)
	scale := alpha / float64(rank)
	if c.RankStabilized {
		scale = alpha / math.Sqrt(float64(rank))
	}
	return nn.AdapterConfig{Rank: rank, Scale: scale, Magnitude: c.DoRA, Dropout: c.Dropout, Scope: in.Scope,
		Seed: in.Seed}
}

// ending returns the value of the longest key that a name ends with, or fallback if there is none.
func ending[T any](m map[string]T, name string, fallback T) T {
	best := ""
	for key, v := range m {
		if (name == key || strings.HasSuffix(name, "."+key)) && len(key) > len(best) {
			best, fallback = key, v
		}
	}
	return fallback
}

// adopt makes the adapters and adds them to the layers.
func (m *decoder) adopt(a *adaptation) error {
	for i := range a.list {
		x := &a.list[i]
		adapter, err := nn.NewAdapter(x.layer, x.name, x.config)
		if err != nil {
			return fmt.Errorf("models: adapter of %s: %w", x.name, err)
		}
		x.adapter = adapter
	}
	for _, p := range m.params {
		p.Fixed = true
	}
	m.params = slices.Clip(m.params)
	for _, x := range a.list {
		x.layer.SetAdapter(x.adapter)
		m.params = append(m.params, x.adapter.Params()...)
	}
	m.adapter = a
	return nil
}

// adopt gives a model the adapters of another one, with their values.
func adopt(m Model, from *decoder, values map[string]*op.Tensor) error {
	if err := Adapt(m, from.adapter.config, nn.Config{}); err != nil {
		return err
	}
	for _, p := range m.Params() {
		if p.Value == nil {
			p.Value = values[p.Name].Detach()
		}
	}
	return nil
}

// Adapted returns how a model's adapters were made, and whether it has any.
func Adapted(m Model) (AdapterConfig, bool) {
	if d, ok := m.(*decoder); ok && d.adapter != nil {
		return d.adapter.config, true
	}
	return AdapterConfig{}, false
}

// Merge adds the adapters to the weights that they modify and removes them; the model computes the same. Its
// parameters may be trained again.
func Merge(m Model) error {
	d, ok := m.(*decoder)
	if !ok || d.adapter == nil {
		return fmt.Errorf("models: merge: the model has no adapters")
	}
	if d.quantized != nil {
		return fmt.Errorf("models: merge: the weights are integers: save the adapter, and merge it into the " +
			"model in floats")
	}
	for _, x := range d.adapter.list {
		w := x.adapter.Merged(x.layer)
		if w.Err() != nil {
			return fmt.Errorf("models: merge %s: %w", x.name, w.Err())
		}
		p := x.layer.Matrix()
		p.Value = w.Detach().Track()
		x.layer.SetAdapter(nil)
	}
	own := map[*nn.Param]bool{}
	for _, p := range d.adapterParams() {
		own[p] = true
	}
	d.params = slices.DeleteFunc(slices.Clone(d.params), func(p *nn.Param) bool { return own[p] })
	fixed := fixedOf(d.config)
	for _, p := range d.params {
		p.Fixed = fixed[p.Name]
	}
	d.adapter = nil
	return nil
}

// fixedOf returns the parameters that models of this configuration do not train.
func fixedOf(c Config) map[string]bool {
	fixed := map[string]bool{}
	if m, err := New(c, nn.Config{}); err == nil {
		for _, p := range m.Params() {
			fixed[p.Name] = p.Fixed
		}
	}
	return fixed
}

// adapterParams returns the trainable parameters of the adapters.
func (m *decoder) adapterParams() (list []*nn.Param) {
	for _, x := range m.adapter.list {
		list = append(list, x.adapter.Params()...)
	}
	return list
}
