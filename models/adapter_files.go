package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// The files of an adapter directory, as in PEFT.
const (
	adapterConfigName  = "adapter_config.json"
	adapterWeightsName = "adapter_model.safetensors"
	// adapterPrefix is PEFT's prefix of the names of a model's own parameters.
	adapterPrefix = "base_model.model."
)

// adapterFile is adapter_config.json: the keys that are read, and those that must not be set.
type adapterFile struct {
	Type          string             `json:"peft_type"`
	Task          string             `json:"task_type"`
	Base          string             `json:"base_model_name_or_path"`
	Rank          int                `json:"r"`
	Alpha         float64            `json:"lora_alpha"`
	Dropout       float64            `json:"lora_dropout"`
	Targets       json.RawMessage    `json:"target_modules"`
	DoRA          bool               `json:"use_dora"`
	RSLoRA        bool               `json:"use_rslora"`
	FanInFanOut   bool               `json:"fan_in_fan_out"`
	Bias          string             `json:"bias"`
	InitWeights   bool               `json:"init_lora_weights"`
	InferenceMode bool               `json:"inference_mode"`
	RankPattern   map[string]int     `json:"rank_pattern"`
	AlphaPattern  map[string]float64 `json:"alpha_pattern"`
	ModulesToSave []string           `json:"modules_to_save"`
}

// refusedKeys are keys of adapter_config.json that change what an adapter computes in unsupported ways.
var refusedKeys = []string{"modules_to_save", "layer_replication", "target_parameters",
	"trainable_token_indices",
	"lora_bias", "use_qalora", "alora_invocation_tokens", "use_bdlora", "arrow_config"}

// AdapterFiles configures how an adapter is written.
type AdapterFiles struct {
	// Base is the model that the adapter belongs to, a directory or a name on a hub.
	Base string
	// Read copies a parameter's data to the host; nil reads eager tensors.
	Read func(x *op.Tensor) (array.Array, error)
}

// SaveAdapter writes the adapters of a model as a directory that PEFT reads.
func SaveAdapter(dir string, m Model, c AdapterFiles) error {
	d, ok := m.(*decoder)
	if !ok || d.adapter == nil {
		return fmt.Errorf("models: save adapter %s: the model has no adapters", dir)
	}
	if c.Read == nil {
		c.Read = cpu.Read
	}
	tensors, err := adapterTensors(d, c.Read)
	if err != nil {
		return fmt.Errorf("models: save adapter %s: %w", dir, err)
	}
	text, err := json.MarshalIndent(adapterFileOf(d, c.Base), "", "  ")
	if err != nil {
		return fmt.Errorf("models: save adapter %s: %w", dir, err)
	}
	err = replaceDir(dir, func(fresh string) error {
		if err := writeFile(filepath.Join(fresh, adapterConfigName), append(text, '\n')); err != nil {
			return err
		}
		return safetensors.Write(filepath.Join(fresh, adapterWeightsName), tensors,
			map[string]string{"format": "pt"})
	})
	if err != nil {
		return fmt.Errorf("models: save adapter: %w", err)
	}
	return nil
}

// AdapterText returns the adapter_config.json of a model's adapters, for a model that is stored elsewhere.
func AdapterText(m Model) ([]byte, error) {
	d, ok := m.(*decoder)
	if !ok || d.adapter == nil {
		return nil, fmt.Errorf("models: adapter: the model has none")
	}
	text, err := json.MarshalIndent(adapterFileOf(d, "."), "", "  ")
	return append(text, '\n'), err
}

// AdaptAs calls Adapt with the adapter_config.json of a directory.
func AdaptAs(dir string, m Model, in nn.Config) error {
	path := filepath.Join(dir, adapterConfigName)
	c, err := readAdapterConfig(path)
	if err != nil {
		return fmt.Errorf("models: %s: %w", path, err)
	}
	if err := readTargets(path, &c); err != nil {
		return fmt.Errorf("models: %s: %w", path, err)
	}
	return Adapt(m, c, in)
}

// readTargets reads a list of targets from a file.
func readTargets(path string, c *AdapterConfig) error {
	text, err := strict.ReadFile(path, strict.Config)
	if err != nil {
		return err
	}
	var f struct {
		Targets []string `json:"target_modules"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	c.Targets = f.Targets
	return nil
}

func adapterTensors(d *decoder, read func(x *op.Tensor) (array.Array, error)) ([]safetensors.Named, error) {
	var list []safetensors.Named
	for _, x := range d.adapter.list {
		for _, p := range x.adapter.Params() {
			if p.Value == nil {
				return nil, fmt.Errorf("parameter %q has no value", p.Name)
			}
			a, err := read(p.Value)
			if err != nil {
				return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
			}
			list = append(list, safetensors.Named{Name: storedAdapter(p.Name), Array: a})
		}
	}
	return list, nil
}

// storedAdapter returns PEFT's name of an adapter parameter; PEFT omits the last part of a magnitude's name.
func storedAdapter(name string) string {
	return adapterPrefix + strings.Replace(name, ".lora_magnitude_vector.weight", ".lora_magnitude_vector", 1)
}

func adapterFileOf(d *decoder, base string) adapterFile {
	c := d.adapter.config
	alpha := c.Alpha
	if alpha == 0 {
		alpha = float64(c.Rank)
	}
	targets := c.Targets
	if len(targets) == 0 { // for PEFT, no targets would mean heads and routers as well
		for _, x := range d.adapter.list {
			if kind := x.name[strings.LastIndex(x.name, ".")+1:]; !slices.Contains(targets, kind) {
				targets = append(targets, kind)
			}
		}
	}
	text, _ := json.Marshal(targets) // a list of strings
	return adapterFile{
		Type: "LORA", Task: "CAUSAL_LM", Base: base, Rank: c.Rank, Alpha: alpha, Dropout: c.Dropout, Targets: text,
		DoRA: c.DoRA, RSLoRA: c.RankStabilized, Bias: "none", InitWeights: true, InferenceMode: true,
		FanInFanOut: d.adapter.list[0].layer.Transposed(),
		RankPattern: mapOrEmpty(c.Ranks), AlphaPattern: mapOrEmpty(c.Alphas),
	}
}

func mapOrEmpty[T any](m map[string]T) map[string]T {
	if m == nil {
		return map[string]T{}
	}
	return m
}

// LoadAdapter adds the adapter of a PEFT directory to the layers of a model.
func LoadAdapter(dir string, m Model, in nn.Config) error {
	if err := loadAdapter(dir, m, in); err != nil {
		return fmt.Errorf("models: adapter %s: %w", dir, err)
	}
	return nil
}

func loadAdapter(dir string, m Model, in nn.Config) error {
	host, ok := in.Scope.(Host)
	if !ok {
		return fmt.Errorf("weights cannot be put into a %T: want an eager session", in.Scope)
	}
	c, err := readAdapterConfig(filepath.Join(dir, adapterConfigName))
	if err != nil {
		return err
	}
	f, err := safetensors.Open(filepath.Join(dir, adapterWeightsName))
	if err != nil {
		return err
	}
	defer f.Close()
	if c.Targets, err = adapterTargets(m, f.Names()); err != nil {
		return err
	}
	if err := Adapt(m, c, in); err != nil {
		return err
	}
	d := m.(*decoder) // Adapt has checked it
	for _, x := range d.adapter.list {
		for _, p := range x.adapter.Params() {
			if err := readAdapter(f, host, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// adapterTargets returns the full names of the layers that a file has adapters for.
func adapterTargets(m Model, names []string) ([]string, error) {
	d, err := adaptableModel(m)
	if err != nil {
		return nil, err
	}
	layers := map[string]bool{}
	for _, l := range d.linear {
		layers[layerName(l)] = true
	}
	var targets []string
	for _, stored := range names {
		name, ok := strings.CutPrefix(stored, adapterPrefix)
		at := strings.Index(name, ".lora_")
		if !ok || at < 0 || !layers[name[:at]] {
			return nil, fmt.Errorf("tensor %q: it is of no linear layer of %s: the adapter is for another model",
				stored,
				d.config.Family)
		}
		if layer := name[:at]; !slices.Contains(targets, layer) {
			targets = append(targets, layer)
		}
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("it holds no tensors")
	}
	return targets, nil
}

func readAdapter(f *safetensors.File, host Host, p *nn.Param) error {
	name := storedAdapter(p.Name)
	if _, _, ok := f.Type(name); !ok {
		name += ".weight" // of a magnitude, in newer files
	}
	dtype, shape, ok := f.Type(name)
	switch {
	case !ok:
		return fmt.Errorf("tensor %q: missing", storedAdapter(p.Name))
	case !shape.Equal(p.Type.Shape):
		return fmt.Errorf("tensor %q: got shape %v, want %v", name, shape, p.Type.Shape)
	case !dtype.IsFloat():
		return fmt.Errorf("tensor %q: got %v, want floats", name, dtype)
	}
	a, err := f.Read(name)
	if err != nil {
		return err
	}
	x := host.Tensor(a)
	if dtype != p.Type.DType {
		x = op.Cast(x, p.Type.DType)
	}
	p.Value = x.Detach().Track()
	return nil
}

// readAdapterConfig reads adapter_config.json; unsupported settings are errors.
func readAdapterConfig(path string) (c AdapterConfig, err error) {
	text, err := strict.ReadFile(path, strict.Config)
	if err != nil {
		return c, err
	}
	return parseAdapterConfig(text)
}

func parseAdapterConfig(text []byte) (c AdapterConfig, err error) {
	var f adapterFile
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return c, fmt.Errorf("%s: %w", adapterConfigName, err)
	}
	for _, key := range refusedKeys {
		if v := string(all[key]); !slices.Contains([]string{"", "null", "false", "[]", "{}"}, v) {
			return c, fmt.Errorf("%s: %s: got %s: adapters with it are not known here", adapterConfigName, key, v)
		}
	}
	if v := string(all["init_lora_weights"]); v != "" && v[0] == '"' { // its initialization is over
		all["init_lora_weights"] = json.RawMessage("true")
	}
	known, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(known, &f)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", adapterConfigName, err)
	}
	if f.Type != "LORA" {
		return c, fmt.Errorf("%s: peft_type: got %q, want LORA", adapterConfigName, f.Type)
	}
	if f.Bias != "" && f.Bias != "none" {
		return c, fmt.Errorf("%s: bias: got %q, want none", adapterConfigName, f.Bias)
	}
	c = AdapterConfig{Rank: f.Rank, Alpha: f.Alpha, DoRA: f.DoRA, RankStabilized: f.RSLoRA, Dropout: f.Dropout,
		Ranks: maps.Clone(f.RankPattern), Alphas: maps.Clone(f.AlphaPattern)}
	return c, c.check()
}

// IsAdapter reports whether a directory holds an adapter.
func IsAdapter(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, adapterConfigName))
	return err == nil
}

// AdapterBase returns the base model that an adapter names.
func AdapterBase(dir string) (string, error) {
	text, err := strict.ReadFile(filepath.Join(dir, adapterConfigName), strict.Config)
	if err != nil {
		return "", fmt.Errorf("models: adapter %s: %w", dir, err)
	}
	var f struct {
		Base string `json:"base_model_name_or_path"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return "", fmt.Errorf("models: adapter %s: %w", dir, err)
	}
	return f.Base, nil
}
