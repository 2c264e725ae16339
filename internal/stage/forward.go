package stage

import (
	"fmt"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
)

// Forward makes the stages of a program that runs forward only, split as Split would: the joint program of
// each takes Weights, Batch and In, and returns Out. Nothing is kept for a backward pass.
func Forward(f *ir.Func, c Config) ([]*Stage, error) {
	defer fault.Pass("stages", f)
	s, err := newSplitter(f, c)
	if err != nil {
		return nil, err
	}
	stages := make([]*Stage, len(c.Cuts)+1)
	for k := range stages {
		if stages[k], err = s.forward(k); err != nil {
			return nil, err
		}
	}
	return stages, nil
}

// forward builds the forward half of stage k.
func (s *splitter) forward(k int) (*Stage, error) {
	b, _, results := s.half(k, fmt.Sprintf("stage%d.forward", k))
	b.out.Forward = true
	f, err := b.b.Build(results...)
	if err != nil {
		return nil, err
	}
	if b.out.Joint, err = s.c.optimized(f); err != nil {
		return nil, err
	}
	return b.out, nil
}
