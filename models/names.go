package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/nn"
)

const headName = "lm_head.weight"

// storedNames maps parameter names to those of a family's checkpoints where they differ.
type storedNames struct {
	// gate, up and down are the matrices of one expert, and mlp the module that they belong to, below a layer;
	// empty means mlp.
	mlp, gate, up, down string
	// renamed holds pairs of a part of a name in the model and in checkpoints.
	renamed []string
	// buffers holds name endings of tensors that are not parameters: tables that the program computes itself.
	buffers []string
	// heads holds further names of the tied embedding table; empty means lm_head.weight.
	heads []string
	// ignored, if not nil, reports further tensors that transformers ignores.
	ignored func(c Config, name string) bool
}

// plainExperts returns the names of all families except Mixtral.
func plainExperts() storedNames {
	return storedNames{gate: "gate_proj", up: "up_proj", down: "down_proj", buffers: rotaryBuffers()}
}

func rotaryBuffers() []string { return []string{"rotary_emb.inv_freq"} }

// tableNames returns the names under which a checkpoint may hold a copy of the tied embedding table.
func (s storedNames) tableNames() []string {
	if len(s.heads) == 0 {
		return []string{headName}
	}
	return s.heads
}

// aliases returns the possible names of a parameter in checkpoints, the most likely first.
func aliases(c Config, name string) []string {
	f, err := familyOf(c.Family)
	if err != nil {
		return nil
	}
	names := []string{name}
	if other := f.stored.name(name); other != name {
		names = append(names, other)
	}
	for _, n := range names {
		if short, ok := strings.CutPrefix(n, f.base); ok && f.base != "" {
			names = append(names, short)
		}
	}
	if c.Tied && name == f.base+f.embedding {
		names = append(names, f.stored.tableNames()...)
	}
	return names
}

// name returns a parameter's name in checkpoints.
func (s storedNames) name(name string) string { return strings.NewReplacer(s.renamed...).Replace(name) }

// expertParts returns the matrices that checkpoints store in place of a stacked parameter, in the order of
// its bytes: for gate_up_proj each expert's gate and up, for down_proj each down. It returns nil for other
// parameters.
func expertParts(c Config, name string) []string {
	f, err := familyOf(c.Family)
	at, which, ok := strings.Cut(name, ".mlp.experts.")
	if err != nil || !ok || f.stored.gate == "" {
		return nil
	}
	s := f.stored
	matrices := []string{s.gate, s.up}
	if which == "down_proj" {
		matrices = []string{s.down}
	}
	mlp := s.mlp
	if mlp == "" {
		mlp = "mlp"
	}
	var parts []string
	for e := range c.Experts {
		for _, w := range matrices {
			parts = append(parts, fmt.Sprintf("%s.%s.experts.%d.%s.weight", at, mlp, e, w))
		}
	}
	return parts
}

// stored returns a parameter in the form of checkpoints.
func stored(c Config, name string, a array.Array) []safetensors.Named {
	if parts := expertParts(c, name); parts != nil {
		rows := a.Shape()[0] * a.Shape()[1]
		flat, each := a.Reshape(rows, a.Shape()[2]), rows/len(parts)
		named := make([]safetensors.Named, len(parts))
		for i, part := range parts {
			named[i] = safetensors.Named{Name: part, Array: flat.Rows(i*each, (i+1)*each)}
		}
		return named
	}
	if f, err := familyOf(c.Family); err == nil {
		name = f.stored.name(name)
	}
	return []safetensors.Named{{Name: name, Array: a}}
}

// storedTypes returns the types of a parameter in the form of checkpoints.
func storedTypes(c Config, p *nn.Param) []safetensors.Typed {
	parts, shape := expertParts(c, p.Name), p.Type.Shape
	if parts == nil {
		name := p.Name
		if f, err := familyOf(c.Family); err == nil {
			name = f.stored.name(name)
		}
		return []safetensors.Typed{{Name: name, DType: p.Type.DType, Shape: shape}}
	}
	types := make([]safetensors.Typed, len(parts))
	for i, part := range parts {
		each := array.Shape{shape[0] * shape[1] / len(parts), shape[2]}
		types[i] = safetensors.Typed{Name: part, DType: p.Type.DType, Shape: each}
	}
	return types
}

// isBuffer reports whether checkpoints may hold a tensor of this name that is not a parameter.
func isBuffer(c Config, name string) bool {
	f, err := familyOf(c.Family)
	if err != nil {
		return false
	}
	if c.Tied && slices.Contains(f.stored.tableNames(), name) {
		return true
	}
	for _, s := range f.stored.buffers {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return f.stored.ignored != nil && f.stored.ignored(c, name)
}
