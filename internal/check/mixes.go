package check

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/strategy"
)

// mix is a strategy to train a model with: a row of the table.
type mix struct {
	galley.Strategy
	// layers is the number of layers of a new model of the same shape, for pipelines that the recorded one is
	// too short for; 0 means the recorded one.
	layers int
}

// deepLayers is how many layers the new models have.
const deepLayers = 8

// under returns a strategy once for every schedule.
func under(s galley.Strategy) (list []galley.Strategy) {
	for _, class := range pipeline.Classes() {
		s.Schedule, s.VPP = class.Name, 0
		if class.Chunks == 0 {
			s.VPP = class.Each()
		}
		list = append(list, s)
	}
	return list
}

// stages returns how many stages a strategy's pipeline has.
func stages(s galley.Strategy) int {
	chunks := max(1, s.VPP)
	if class, err := pipeline.Choose(s.Schedule, s.VPP); err == nil && class.Vee {
		chunks = class.Chunks
	}
	return max(1, s.PP) * chunks
}

// mixes returns the rows for a model: those that it has enough layers and experts for.
func mixes(c models.Config, offloadDir string) []mix {
	all := slices.Concat(dataMixes(), zeroMixes(), pipelineMixes(c.Layers), contextMixes(),
		memoryMixes(offloadDir))
	if c.Experts > 0 {
		all = append(all, expertMixes(c.Experts)...)
	}
	var list []mix
	for _, s := range all {
		if stages(s) <= c.Layers {
			list = append(list, mix{Strategy: s})
		}
	}
	for _, s := range deepMixes() {
		list = append(list, mix{s, deepLayers})
	}
	return list
}

// dataMixes split batches and tensors, evenly and not.
func dataMixes() []galley.Strategy {
	return []galley.Strategy{
		{}, {Micro: 4}, {Micro: 3},
		{DP: 2}, {DP: 8}, {DP: 3}, {DP: 4, Micro: 2}, {DP: 2, Micro: 3},
		{TP: 2}, {TP: 4}, {TP: 3}, {TP: 8}, {DP: 2, TP: 2}, {DP: 2, TP: 4, Micro: 2},
		{TP: 2, Sequence: true}, {TP: 4, Sequence: true}, {DP: 2, TP: 2, Sequence: true, Micro: 2},
	}
}

func zeroMixes() (list []galley.Strategy) {
	for stage := 1; stage <= 3; stage++ {
		list = append(list, galley.Strategy{DP: 2, Zero: stage, Micro: 2},
			galley.Strategy{DP: 4, TP: 2, Zero: stage})
	}
	for stage := 1; stage <= 3; stage++ {
		list = append(list, galley.Strategy{DP: 4, Zero: stage, Shard: 2, Micro: 2})
	}
	list = append(list, galley.Strategy{DP: 4, TP: 2, PP: 2, Zero: 3, Shard: 2, Micro: 2})
	return append(list, galley.Strategy{DP: 8, Zero: 3}, galley.Strategy{DP: 3, Zero: 2, Micro: 2},
		galley.Strategy{DP: 2, TP: 2, PP: 2, Zero: 1, Micro: 2}, galley.Strategy{DP: 2, TP: 2, PP: 2, Zero: 3,
			Micro: 2})
}

func pipelineMixes(layers int) []galley.Strategy {
	list := append(under(galley.Strategy{DP: 2, TP: 2, PP: 2, Micro: 4}),
		under(galley.Strategy{PP: 2, Micro: 4})...)
	list = append(list, galley.Strategy{PP: 2, Micro: 3}, galley.Strategy{PP: 4, Micro: 4},
		galley.Strategy{PP: 4, Micro: 8, Schedule: "zbh1"},
		galley.Strategy{PP: 3, Micro: 4}, galley.Strategy{TP: 2, PP: 2, Sequence: true, Micro: 4})
	if layers > 2 {
		list = append(list, galley.Strategy{PP: 2, Micro: 4, Layers: []int{1, layers - 1}},
			galley.Strategy{PP: 2, Micro: 2, DP: 2, Layers: []int{layers - 1, 1}})
	}
	return list
}

// contextMixes split sequences.
func contextMixes() (list []galley.Strategy) {
	for _, way := range []string{"ring", "ulysses", "gather"} {
		list = append(list, galley.Strategy{CP: 2, Context: way}, galley.Strategy{CP: 4, Context: way},
			galley.Strategy{DP: 2, CP: 2, PP: 2, Micro: 2, Context: way})
	}
	return append(list, galley.Strategy{TP: 2, CP: 2}, galley.Strategy{TP: 2, CP: 2, Sequence: true},
		galley.Strategy{DP: 2, CP: 2, Zero: 3}, galley.Strategy{CP: 3},
		galley.Strategy{DP: 2, TP: 2, PP: 2, CP: 2, Micro: 2})
}

// memoryMixes trade memory for time.
func memoryMixes(dir string) (list []galley.Strategy) {
	for _, word := range []strategy.Recompute{"selective", "full"} {
		list = append(list, galley.Strategy{Recompute: word},
			galley.Strategy{DP: 2, TP: 2, PP: 2, Micro: 2, Recompute: word})
	}
	return append(list, galley.Strategy{PP: 2, Micro: 4, Recompute: "full:1"},
		galley.Strategy{Offload: strategy.Offload{Optimizer: 1}},
		galley.Strategy{DP: 2, Zero: 1, Offload: strategy.Offload{Optimizer: 1}},
		galley.Strategy{DP: 2, TP: 2, PP: 2, Zero: 2, Micro: 2, Recompute: "full",
			Offload: strategy.Offload{Optimizer: 1}},
		galley.Strategy{PP: 2, Micro: 2, Offload: strategy.Offload{Optimizer: 1, Dir: dir}},
		galley.Strategy{Offload: strategy.Offload{Optimizer: 0.5}},
		galley.Strategy{Offload: strategy.Offload{Activations: 1}},
		galley.Strategy{Micro: 4, Offload: strategy.Offload{Parameters: 1}},
		galley.Strategy{DP: 2, TP: 2, PP: 2, Micro: 4, Zero: 1, Offload: strategy.Offload{Optimizer: 0.5,
			Activations: 0.5, Parameters: 0.5}},
		galley.Strategy{DP: 2, Zero: 3, Micro: 2,
			Offload: strategy.Offload{Optimizer: 1, Activations: 1, Parameters: 1,
				Dir: dir}})
}

// expertMixes split experts.
func expertMixes(experts int) []galley.Strategy {
	list := []galley.Strategy{{EP: 2}, {DP: 4, EP: 2}, {EP: 2, Micro: 4}, {EP: 2, TP: 2},
		{EP: 2, TP: 2, Sequence: true}, {EP: 2, PP: 2, Micro: 2},
		{EP: 2, CP: 2}, {EP: 3}, {EP: 2, Zero: 1}, {DP: 4, EP: 2, Zero: 2}, {DP: 4, EP: 2, Zero: 3}, {EP: 2,
			Recompute: "full"}, {EP: 2, PP: 2, Micro: 4, Schedule: "zbh1"},
		{DP: 2, TP: 2, PP: 2, CP: 2, EP: 2, Micro: 2}, {EP: 2, TP: 2, ETP: 2},
		{DP: 4, EP: 2, TP: 2, ETP: 2, Zero: 3,
			Micro: 2}, {DP: 2, CP: 2, EP: 4}}
	if experts >= 4 {
		list = append(list, galley.Strategy{EP: 4}, galley.Strategy{EP: 4, Micro: 2, Zero: 3})
	}
	return list
}

// deepMixes returns pipelines of many stages.
func deepMixes() []galley.Strategy {
	list := under(galley.Strategy{PP: 4, Micro: 8})
	return append(list, galley.Strategy{PP: 2, VPP: 4, Schedule: "interleaved", Micro: 4},
		galley.Strategy{DP: 2, PP: 4, VPP: 2, Schedule: "interleaved", Micro: 4, Zero: 1},
		galley.Strategy{PP: 8, Micro: 4}, galley.Strategy{PP: 3, Micro: 5, Layers: []int{1, 5, 2}})
}

// label returns the row's name.
func (m mix) label(family string) string {
	s := m.Strategy
	if s.PP > 1 && s.Schedule == "" {
		s.Schedule = pipeline.Default(s.VPP).Name
	}
	if s.CP > 1 && s.Context == "" {
		s.Context = "ring"
	}
	if s.DP == 0 && s.EP > 1 {
		s.DP = s.EP
	}
	disk := s.Offload.Dir != ""
	s.Offload.Dir = ""
	text := s.String()
	if disk {
		text += " to disk"
	}
	if s.Layers != nil {
		text += fmt.Sprintf(" layers %v", s.Layers)
	}
	if m.layers > 0 {
		family = fmt.Sprintf("%s×%d", family, m.layers)
	}
	return family + " " + text
}

// StrategyNames returns the names of the rows for a model.
func StrategyNames(c models.Config) []string {
	var names []string
	for _, x := range mixes(c, ".") {
		names = append(names, x.label(c.Family))
	}
	return names
}
