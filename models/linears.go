package models

import (
	"strings"

	"github.com/galley-ml/galley/nn"
)

// Linears returns the matrices of a model's layers that can be quantized: those of attention and of MLPs,
// including experts, but not embeddings, heads and routers.
func Linears(m Model) ([]*nn.Param, error) {
	parts, err := PartsOf(m)
	if err != nil {
		return nil, err
	}
	var list []*nn.Param
	for _, l := range parts.Layers {
		for _, w := range append(attentionLinears(l.Attention), mlpLinears(l.MLP)...) {
			if w != nil {
				list = append(list, w.Weight)
			}
		}
		if moe, ok := l.MLP.(*nn.MoE); ok {
			list = append(list, moe.GateUp, moe.Down)
		}
	}
	return list, nil
}

func attentionLinears(a nn.Attender) []*nn.Linear {
	switch a := a.(type) {
	case *nn.Attention:
		return []*nn.Linear{a.Q, a.K, a.V, a.O}
	case *nn.FusedAttention:
		return []*nn.Linear{linearOf(a.QKV), linearOf(a.Proj)}
	case *nn.LatentAttention:
		return []*nn.Linear{a.QDown, a.QUp, a.KVDown, a.KVUp, a.O}
	}
	return nil
}

func mlpLinears(l any) []*nn.Linear {
	switch l := l.(type) {
	case *nn.GatedMLP:
		return []*nn.Linear{l.Gate, l.Up, l.Down}
	case *nn.FusedGatedMLP:
		return []*nn.Linear{l.GateUp, l.Down}
	case *nn.MLP:
		return []*nn.Linear{linearOf(l.FC), linearOf(l.Proj)}
	case *nn.MoE:
		if l.Shared != nil {
			return mlpLinears(l.Shared)
		}
	}
	return nil
}

// linearOf returns a projection that is stored as [out, in]; nil for another kind.
func linearOf(p nn.Projection) *nn.Linear {
	l, _ := p.(*nn.Linear)
	return l
}

// unchanged returns the modules that are not quantized, heads and routers, by their names in checkpoints.
func unchanged(m Model, parts Parts) []string {
	var names []string
	module := func(p *nn.Param) {
		f, err := familyOf(m.Config().Family)
		if err == nil {
			names = append(names, strings.TrimSuffix(f.stored.name(p.Name), ".weight"))
		}
	}
	for _, l := range parts.Layers {
		if moe, ok := l.MLP.(*nn.MoE); ok {
			module(moe.Router.Weight)
			if moe.SharedGate != nil {
				module(moe.SharedGate.Weight)
			}
		}
	}
	if parts.Head != nil {
		module(parts.Head.Weight)
	}
	return names
}
