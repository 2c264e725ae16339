package quant

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Layout is how a checkpoint stores matrices of integers: what the quantization_config of a config.json says.
type Layout struct {
	// Method is compressed-tensors, gptq or awq.
	Method string
	Bits   int
	// Group is how many columns have one scale; 0 is a whole row.
	Group int
	// ZeroLess is by how much stored zero points are less than they are.
	ZeroLess int
}

// The methods whose layouts are read.
const (
	CompressedTensors = "compressed-tensors"
	GPTQ              = "gptq"
	AWQ               = "awq"
)

// settings is the keys of a quantization_config that say how integers are stored. Others say how they were
// found, or which layers have them, which the names of tensors tell.
type settings struct {
	Method string `json:"quant_method"`
	Bits   int    `json:"bits"`
	Group  *int   `json:"group_size"`

	// Of GPTQ.
	CheckpointFormat string                     `json:"checkpoint_format"`
	Marlin           bool                       `json:"is_marlin_format"`
	Dynamic          map[string]json.RawMessage `json:"dynamic"`
	// Of AWQ.
	WBit    int    `json:"w_bit"`
	QGroup  *int   `json:"q_group_size"`
	Version string `json:"version"`
	// Of compressed-tensors.
	Format   string                     `json:"format"`
	Groups   map[string]scheme          `json:"config_groups"`
	KVCache  json.RawMessage            `json:"kv_cache_scheme"`
	Sparsity map[string]json.RawMessage `json:"sparsity_config"`
}

type scheme struct {
	Weights *weightScheme   `json:"weights"`
	Input   json.RawMessage `json:"input_activations"`
	Output  json.RawMessage `json:"output_activations"`
}

type weightScheme struct {
	Bits     int             `json:"num_bits"`
	Type     string          `json:"type"`
	Strategy string          `json:"strategy"`
	Group    *int            `json:"group_size"`
	Dynamic  json.RawMessage `json:"dynamic"`
}

// ParseLayout reads a quantization_config.
func ParseLayout(text []byte) (Layout, error) {
	var s settings
	if err := json.Unmarshal(text, &s); err != nil {
		return Layout{}, fmt.Errorf("want an object with the keys of a known method: %w", err)
	}
	var l Layout
	var err error
	switch s.Method {
	case CompressedTensors:
		l, err = s.compressed()
	case GPTQ:
		l, err = s.gptq()
	case AWQ:
		l, err = s.awq()
	default:
		return l, fmt.Errorf("quant_method: got %q, want one of %s, %s, %s", s.Method, AWQ, CompressedTensors, GPTQ)
	}
	if err == nil {
		err = l.check()
	}
	return l, err
}

func (l Layout) check() error {
	if l.Bits != 4 && l.Bits != 8 {
		return fmt.Errorf("weights of %d bits: want 4 or 8", l.Bits)
	}
	if l.Group < 0 || l.Group%32 != 0 || l.Group > 1<<20 {
		return fmt.Errorf("group_size: got %d, want a multiple of 32, or -1 for whole rows", l.Group)
	}
	return nil
}

func group(g *int, def int) int {
	switch {
	case g == nil:
		return def
	case *g == -1:
		return 0
	case *g == 0:
		return -1 // nothing has groups of none
	}
	return *g
}

func (s settings) gptq() (Layout, error) {
	l := Layout{Method: GPTQ, Bits: s.Bits, Group: group(s.Group, -1), ZeroLess: 1}
	switch {
	case s.Marlin:
		return l, fmt.Errorf("is_marlin_format: such files are for one kernel: want the plain format")
	case len(s.Dynamic) > 0:
		return l, fmt.Errorf("dynamic: settings by layer are not supported")
	}
	switch s.CheckpointFormat {
	case "", "gptq":
	case "gptq_v2":
		l.ZeroLess = 0
	default:
		return l, fmt.Errorf("checkpoint_format: got %q, want gptq or gptq_v2", s.CheckpointFormat)
	}
	return l, nil
}

func (s settings) awq() (Layout, error) {
	l := Layout{Method: AWQ, Bits: max(s.Bits, s.WBit), Group: group(s.Group, group(s.QGroup, -1))}
	if l.Bits != 4 {
		return l, fmt.Errorf("awq with %d bits: want 4", l.Bits)
	}
	if v := strings.ToLower(s.Version); v != "" && v != "gemm" {
		return l, fmt.Errorf("version: got %q, want gemm", s.Version)
	}
	return l, nil
}

func (s settings) compressed() (Layout, error) {
	l := Layout{Method: CompressedTensors}
	switch {
	case s.Format != "pack-quantized":
		return l, fmt.Errorf("format: got %q, want pack-quantized", s.Format)
	case said(s.KVCache):
		return l, fmt.Errorf("kv_cache_scheme: not supported: want null")
	case len(s.Groups) == 0:
		return l, fmt.Errorf("config_groups: missing")
	}
	if f := s.Sparsity["format"]; said(f) && string(f) != `"dense"` {
		return l, fmt.Errorf("sparsity_config: format: got %s, want dense", f)
	}
	var names []string
	for name := range s.Groups {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		one, err := s.Groups[name].layout()
		if err != nil {
			return l, fmt.Errorf("config_groups: %s: %w", name, err)
		}
		if i > 0 && one != l {
			return l, fmt.Errorf("config_groups: %s and %s differ: want one scheme", names[0], name)
		}
		l = one
	}
	return l, nil
}

func (s scheme) layout() (Layout, error) {
	l := Layout{Method: CompressedTensors}
	w := s.Weights
	switch {
	case said(s.Input) || said(s.Output):
		return l, fmt.Errorf("rounded activations are not supported: want weights alone")
	case w == nil:
		return l, fmt.Errorf("weights: missing")
	case w.Type != "" && w.Type != "int":
		return l, fmt.Errorf("weights: type: got %q, want int", w.Type)
	case said(w.Dynamic) && string(w.Dynamic) != "false":
		return l, fmt.Errorf("weights: dynamic: got %s, want false", w.Dynamic)
	}
	l.Bits = w.Bits
	switch w.Strategy {
	case "channel":
	case "group", "":
		l.Group = group(w.Group, -1)
	default:
		return l, fmt.Errorf("weights: strategy: got %q, want group or channel", w.Strategy)
	}
	return l, nil
}

func said(v json.RawMessage) bool { return len(v) > 0 && string(v) != "null" }

// Files gives the tensors of a checkpoint.
type Files interface {
	Type(name string) (array.DType, array.Shape, bool)
	Read(name string) (array.Array, error)
}

// stem returns what the names of a weight's tensors begin with.
func stem(weight string) (string, bool) { return strings.CutSuffix(weight, ".weight") }

// tensors returns the names after the stem, the integers first; those after the second may be left out.
func (l Layout) tensors() []string {
	switch l.Method {
	case CompressedTensors:
		return []string{".weight_packed", ".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx"}
	case GPTQ:
		return []string{".qweight", ".scales", ".qzeros", ".g_idx"}
	}
	return []string{".qweight", ".scales", ".qzeros"}
}

// Names returns the tensors in which a checkpoint stores a weight as integers; nil where it does not.
func (l Layout) Names(f Files, weight string) []string {
	s, ok := stem(weight)
	if !ok {
		return nil
	}
	var names []string
	for i, t := range l.tensors() {
		if _, _, ok := f.Type(s + t); ok {
			names = append(names, s+t)
		} else if i == 0 {
			return nil
		}
	}
	return names
}
