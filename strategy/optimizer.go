package strategy

import "fmt"

// WithZero returns s (nil means one device) with the ZeRO stage that an optimizer requests, over an axis
// unless that is empty.
func (s *Strategy) WithZero(stage int, axis string) (*Strategy, error) {
	out := s.clone()
	if out.Zero != 0 && out.Zero != stage {
		return nil, fmt.Errorf("strategy: zero is %d and the optimizer is sharded by stage %d: leave one of them "+
			"out",
			out.Zero, stage)
	}
	if axis != "" && axis != DataAxis {
		return nil, fmt.Errorf("strategy: the optimizer is sharded by stage %d over axis %q: want %q: state is "+
			"split "+
			"over the axes that split batches", stage, axis, DataAxis)
	}
	if axis != "" && max(out.DP, out.EP) <= 1 {
		return nil, fmt.Errorf("strategy: the optimizer is sharded over axis %s, which has one device: set DP "+
			"to 2 or "+
			"more, or leave out the sharding", DataAxis)
	}
	out.Zero = stage
	return out, nil
}

// WithMicro returns s (nil means one device) with as many micro-batches as an optimizer accumulates gradients
// over.
func (s *Strategy) WithMicro(micro int) (*Strategy, error) {
	out := s.clone()
	if out.Micro != 0 && out.Micro != micro {
		return nil, fmt.Errorf("strategy: micro is %d and the optimizer accumulates %d: leave one of them out",
			out.Micro, micro)
	}
	out.Micro = micro
	return out, nil
}

// clone returns a copy of a strategy; nil becomes that of one device.
func (s *Strategy) clone() *Strategy {
	var out Strategy
	if s != nil {
		out = *s
	}
	return &out
}
