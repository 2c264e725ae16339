package layout

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/stage"
)

// stateBytes is the number of bytes stored for each byte of a weight: itself, its gradient and two slots.
const stateBytes = 4

// narrow splits a program without stage marks where it is narrowest.
func (l *Layout) narrow(f *ir.Func) (*Program, error) {
	stages, err := stage.Balance(f, stage.BalanceConfig{Weights: len(l.Params), Stages: l.Schedule.Stages,
		Micros: l.Strategy.Micro, State: stateBytes})
	if err != nil {
		return nil, fmt.Errorf("strategy %s: %w", l.given, err)
	}
	return l.inStages(f, stages, l.Schedule)
}

// inStages returns a program whose nodes are assigned to the stages of a schedule; what depends on weights
// alone is computed where it is used.
func (l *Layout) inStages(f *ir.Func, stages []int, s *pipeline.Schedule) (out *Program, err error) {
	p := &placer{f: f, weights: len(l.Params), learned: learnedIn(f, len(l.Params)), place: s.Place,
		stage: stages}
	p.weightStages(p.numbers(), p.ownWeights())
	out = &Program{Schedule: s, stages: p.weightUses()}
	out.Func, out.Cuts, err = p.marked()
	return out, err
}

// weightUses returns the stages that compute with each weight.
func (p *placer) weightUses() [][]int {
	uses := make([][]int, p.weights)
	for i, n := range p.f.Nodes() {
		for _, v := range n.In() {
			if w := v.ID(); v.Node() == nil && w < p.weights && p.stage[i] >= 0 &&
				!slices.Contains(uses[w], p.stage[i]) {
				uses[w] = append(uses[w], p.stage[i])
			}
		}
	}
	return uses
}

// follow splits a forward pass where its weights are, those of a step that was split before: stages of which
// it has nothing, such as the loss, are omitted.
func (l *Layout) follow(f *ir.Func) (*Program, error) {
	p := &placer{f: f, weights: len(l.Params), learned: learnedIn(f, len(l.Params))}
	number, own, reads := p.numbers(), p.ownWeights(), p.reads()
	stages := slices.Repeat([]int{-1}, len(f.Nodes()))
	for i, n := range f.Nodes() {
		if !p.learned[n.Out()[0].ID()] || own[n] {
			continue
		}
		least := 0
		for _, v := range n.In() {
			if v.Node() != nil {
				least = max(least, stages[number[v.Node()]])
			}
		}
		at, ok := l.from(least, reads[i])
		if !ok {
			return nil, &ir.Error{Pos: n.Pos(), Op: n.Op().Name(),
				Err: fmt.Errorf("it reads weights of an earlier stage than " +
					"its operands: want stages in the order of the training step, or pp=1")}
		}
		stages[i] = at
	}
	var used, place []int
	for s, rank := range l.Schedule.Place {
		if slices.Contains(stages, s) {
			used, place = append(used, s), append(place, rank)
		}
	}
	for i, s := range stages {
		stages[i] = slices.Index(used, s)
	}
	if len(used) == 0 {
		place = []int{0}
	}
	s, err := pipeline.Placed("", place, len(l.Meshes), l.Strategy.Micro)
	if err != nil {
		return nil, err
	}
	return l.inStages(f, stages, s)
}

// from returns the first stage, starting at a number, whose rank has all of some weights.
func (l *Layout) from(least int, weights []int) (int, bool) {
	for s := least; s < l.Schedule.Stages; s++ {
		has := !slices.ContainsFunc(weights, func(w int) bool {
			return !slices.ContainsFunc(l.cut[w],
				func(at int) bool { return l.Schedule.Place[at] == l.Schedule.Place[s] })
		})
		if has {
			return s, true
		}
	}
	return 0, false
}

// numbers returns the nodes' numbers.
func (p *placer) numbers() map[*ir.Node]int {
	number := map[*ir.Node]int{}
	for i, n := range p.f.Nodes() {
		number[n] = i
	}
	return number
}

// reads returns, by node, the weights that it computes with, including those that others prepare for it.
func (p *placer) reads() [][]int {
	own, from := p.ownWeights(), make([][]int, p.f.NumValues())
	for i, v := range p.f.Params()[:p.weights] {
		from[v.ID()] = []int{i}
	}
	var list [][]int
	for _, n := range p.f.Nodes() {
		var reads []int
		for _, v := range n.In() {
			reads = append(reads, from[v.ID()]...)
		}
		for _, v := range n.Out() {
			if own[n] {
				from[v.ID()] = reads
			}
		}
		list = append(list, reads)
	}
	return list
}

// bend splits the stage at the bottom of a V in two, for a schedule that goes down the ranks and up again:
// data that stays on the last mesh passes it once.
func (p *placer) bend(ranks int) {
	var down []int
	for r := range 2*ranks - 1 {
		down = append(down, min(r, 2*ranks-2-r))
	}
	if !slices.Equal(p.place, down) {
		return
	}
	only := make([]bool, len(p.f.Nodes()))
	for i, s := range p.stage {
		only[i] = s == ranks-1
	}
	halves, err := stage.Balance(p.f,
		stage.BalanceConfig{Weights: p.weights, Stages: 2, Micros: 1, State: stateBytes,
			Only: only})
	if err != nil {
		return // there is nothing to split: the schedule reports what it needs
	}
	own := p.ownWeights()
	for i, n := range p.f.Nodes() {
		switch {
		case own[n]:
			p.stage[i] = -1
		case p.stage[i] >= ranks || halves[i] == 1:
			p.stage[i]++
		}
	}
	p.place = slices.Insert(p.place, ranks, ranks-1)
	p.weightStages(p.numbers(), own)
}
