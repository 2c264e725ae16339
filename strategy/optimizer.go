package strategy

import "fmt"

// WithZero returns s, or for nil that of one device, with a stage of ZeRO that an optimizer asks for over an
// axis, where that is not empty.
func (s *Strategy) WithZero(stage int, axis string) (*Strategy, error) {
	out := s.clone()
	if out.Zero != 0 && out.Zero != stage {
		return nil, fmt.Errorf("strategy: zero is %d and the optimizer is sharded by stage %d: leave one of them out",
			out.Zero, stage)
	}
	if axis != "" && axis != DataAxis {
		return nil, fmt.Errorf("strategy: the optimizer is sharded by stage %d over axis %q: want %q: state is split "+
			"over the axes that split batches", stage, axis, DataAxis)
	}
	if axis != "" && max(out.DP, out.EP) <= 1 {
		return nil, fmt.Errorf("strategy: the optimizer is sharded over axis %s, which has one device: set DP to 2 or "+
			"more, or leave out the sharding", DataAxis)
	}
	out.Zero = stage
	return out, nil
}

// WithMicro returns s, or for nil that of one device, with as many micro-batches as an optimizer sums
// gradients over.
func (s *Strategy) WithMicro(micro int) (*Strategy, error) {
	out := s.clone()
	if out.Micro != 0 && out.Micro != micro {
		return nil, fmt.Errorf("strategy: micro is %d and the optimizer accumulates %d: leave one of them out",
			out.Micro, micro)
	}
	out.Micro = micro
	return out, nil
}

// clone returns a copy of a strategy; that of none is one device's.
func (s *Strategy) clone() *Strategy {
	var out Strategy
	if s != nil {
		out = *s
	}
	return &out
}
