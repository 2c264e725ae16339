package layout

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/strategy"
)

// Layers holds what a plan requests for a model's layers by name: how their weights are split, the layouts of
// their inputs and outputs, where stages begin. Builder makes one.
type Layers struct {
	params int // of the model
	splits []weightSplit
	hooks  []hook
	points []point
	// inputs holds how the tensors of a batch are split, in addition to their rows by the data axes.
	inputs []mesh.Spec
}

// Found returns the result of a search for a batch: how its tensors are split, in addition to their rows by
// the data axes.
func Found(params int, inputs []mesh.Spec) *Layers { return &Layers{params: params, inputs: inputs} }

// input returns a layout of tensor i of a batch with the result of the search added; axes that the mesh lacks
// are omitted.
func (p *Layers) input(m *mesh.Mesh, i int, s mesh.Sharding) mesh.Sharding {
	if p == nil || i >= len(p.inputs) || len(p.inputs[i].Dims) != len(s.Spec.Dims) {
		return s
	}
	for d, axes := range onlyAxes(m, p.inputs[i]).Dims {
		s.Spec.Dims[d] = append(slices.Clone(s.Spec.Dims[d]), axes...)
	}
	return s
}

// point is where a stage begins: before a layer, or after it.
type point struct {
	layer  string
	before bool
}

// cuts reports whether a plan defines where stages begin.
func (p *Layers) cuts() bool { return p != nil && len(p.points) > 0 }

// Builder collects what a plan requests for layers.
type Builder struct {
	out Layers
	// params and layers hold their names, in the model's order.
	params, layers []string
	shapes         map[string][]int
}

// NewBuilder finds the layers of a model: the prefixes of parameter names before their dots.
func NewBuilder(params []*nn.Param) *Builder {
	b := &Builder{out: Layers{params: len(params)}, shapes: map[string][]int{}}
	seen := map[string]bool{}
	for _, p := range params {
		b.params, b.shapes[p.Name] = append(b.params, p.Name), p.Type.Shape
		for i, c := range p.Name {
			if l := p.Name[:i]; c == '.' && !seen[l] {
				seen[l] = true
				b.layers = append(b.layers, l)
			}
		}
	}
	return b
}

// Layers returns what was requested.
func (b *Builder) Layers() *Layers { return &b.out }

// Match returns the outermost layers whose names match a pattern.
func (b *Builder) Match(pattern string) ([]string, error) {
	var list []string
	for _, l := range b.layers {
		ok, err := path.Match(pattern, l)
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		inside := slices.ContainsFunc(list, func(outer string) bool { return strings.HasPrefix(l, outer+".") })
		if ok && !inside {
			list = append(list, l)
		}
	}
	if list == nil {
		return nil, fmt.Errorf("pattern %q matches no layer: want one like %s", pattern, nearest(pattern, b.layers))
	}
	return list, nil
}

// nearest returns the layers that share the last part of a pattern, or the first ones.
func nearest(pattern string, names []string) string {
	word := pattern[strings.LastIndexAny(pattern, ".*?]")+1:]
	var like []string
	for _, n := range names {
		if word != "" && strings.Contains(n, word) {
			like = append(like, n)
		}
	}
	if like == nil {
		like = names
	}
	return someOf(like)
}

// someOf returns the first of some names, for messages.
func someOf(names []string) string {
	if len(names) > 4 {
		return strings.Join(names[:4], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// Side is a dim of a weight by its role in a layer.
type Side uint8

// The result of the layer has the dim, or it lacks it.
const (
	SequenceParallel Side = iota
	Rows
)

// weightSplit requests a side of a layer's weight to be split.
type weightSplit struct {
	weight, bias string // bias is empty if it is not split
	side         Side
	axis         string
}

// Split requests a side of a layer's weight to be split along an axis; empty means the tensor axis.
func (b *Builder) Split(layer string, s Side, axis string) error {
	if axis == "" {
		axis = strategy.TensorAxis
	}
	if !slices.Contains(strategyAxes, axis) {
		return fmt.Errorf("axis %q: want tp, or dp, cp, ep", axis)
	}
	w := weightSplit{weight: layer + ".weight", side: s, axis: axis}
	shape, ok := b.shapes[w.weight]
	if !ok {
		return fmt.Errorf("it has no weight of its own: name its linear layers or embeddings: %s",
			nearest("*", b.within(layer)))
	}
	if len(shape) != 2 {
		return fmt.Errorf("its weight has shape %v: want a matrix: annotate it by ParallelPlan.Annotations", shape)
	}
	if _, ok := b.shapes[layer+".bias"]; ok && s == SequenceParallel {
		w.bias = layer + ".bias"
	}
	b.out.splits = append(b.out.splits, w)
	return nil
}

// within returns the names of layers or else parameters within a layer.
func (b *Builder) within(layer string) []string {
	var list []string
	for _, n := range append(slices.Clone(b.layers), b.params...) {
		if strings.HasPrefix(n, layer+".") {
			list = append(list, n)
		}
	}
	return list
}

// hook requests the layout of a layer's input or output.
type hook struct {
	layer string
	at    HookSide
	// sharding has no dims if only batch and context stay split.
	sharding mesh.Sharding
}

// HookSide is where a hook is.
type HookSide uint8

const (
	Input HookSide = iota
	Output
)

func (b *Builder) Hook(layer string, at HookSide, text string) error {
	h := hook{layer: layer, at: at}
	if text != "" {
		var err error
		if h.sharding, err = mesh.ParseSharding(text); err != nil {
			return err
		}
	}
	b.out.hooks = append(b.out.hooks, h)
	return nil
}

// Point requests a stage to begin before a layer, or after it.
func (b *Builder) Point(layer string, before bool) error {
	if !slices.Contains(b.layers, layer) {
		return fmt.Errorf("split point at %q: no such layer: want one like %s", layer, nearest(layer, b.layers))
	}
	b.out.points = append(b.out.points, point{layer, before})
	return nil
}
