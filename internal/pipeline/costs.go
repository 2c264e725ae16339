package pipeline

import (
	"fmt"
	"math"
)

// Costs holds the costs of actions, in seconds and bytes. A slice has a value for each stage, or one for all;
// each field says what an empty one means.
type Costs struct {
	// Forward, Backward, Input and Weight are the times of F, B, I and W. An empty Backward means the sum of
	// Input and Weight.
	Forward, Backward, Input, Weight []float64
	// Pair is the time of a joined forward and backward, by the stage of the forward; empty means the sum of the
	// two.
	Pair []float64
	// Transfer is how long a message between stage i and the next one occupies the link between their ranks,
	// either way; messages of one link are sent one after the other. Latency is added to the arrival of each.
	// Empty means zero.
	Transfer, Latency []float64
	// Micro, if not nil, returns a factor for the time of a compute action.
	Micro func(a Action) float64
	// Activation is the bytes that a stage holds for a micro-batch from its forward to the end of its backward;
	// empty means zero. Kept is the part of it that remains between I and W; empty means all of it.
	Activation, Kept []float64
}

// Uniform returns the costs of equal stages, with a backward pass of two equal halves.
func Uniform(forward, backward float64) Costs {
	half := []float64{backward / 2}
	return Costs{Forward: []float64{forward}, Backward: []float64{backward}, Input: half, Weight: half}
}

// spread writes a value for each stage to dst.
func spread(dst []float64, what string, v []float64, stages int) ([]float64, error) {
	if len(v) > 1 && len(v) != stages {
		return dst, fmt.Errorf("costs: %s: %d values: want one, or one for each of %d stages", what, len(v), stages)
	}
	dst = dst[:0]
	for i := range stages {
		x := 0.0
		switch {
		case len(v) == 1:
			x = v[0]
		case len(v) > 1:
			x = v[i]
		}
		if x < 0 || math.IsNaN(x) || math.IsInf(x, 0) {
			return dst, fmt.Errorf("costs: %s of stage %d is %v: want a finite number, zero or more", what, i, x)
		}
		dst = append(dst, x)
	}
	return dst, nil
}

// table holds the costs with a value for each stage.
type table struct {
	time                                      [Weight + 1][]float64
	pair, transfer, latency, activation, kept []float64
	micro                                     func(Action) float64
	split                                     bool // Input and Weight are known
}

func (t *table) load(c *Costs, stages int) error {
	var err error
	fill := func(dst *[]float64, what string, v []float64) {
		if err == nil {
			*dst, err = spread(*dst, what, v, stages)
		}
	}
	fill(&t.time[Forward], "forward", c.Forward)
	fill(&t.time[Backward], "backward", c.Backward)
	fill(&t.time[Input], "input", c.Input)
	fill(&t.time[Weight], "weight", c.Weight)
	fill(&t.pair, "pair", c.Pair)
	fill(&t.transfer, "transfer", c.Transfer)
	fill(&t.latency, "latency", c.Latency)
	fill(&t.activation, "activation", c.Activation)
	fill(&t.kept, "kept", c.Kept)
	if err != nil {
		return err
	}
	t.micro = c.Micro
	t.split = len(c.Input) > 0 && len(c.Weight) > 0
	if len(c.Forward) == 0 {
		return fmt.Errorf("costs: no time for forward")
	}
	if len(c.Backward) == 0 {
		if !t.split {
			return fmt.Errorf("costs: no time for backward: want Backward, or Input and Weight")
		}
		for i := range stages {
			t.time[Backward][i] = t.time[Input][i] + t.time[Weight][i]
		}
	}
	if len(c.Kept) == 0 {
		copy(t.kept, t.activation)
	}
	if len(c.Pair) == 0 {
		t.pair = t.pair[:0]
	}
	return nil
}

// of returns the time of a compute action.
func (t *table) of(a Action) float64 {
	d := t.time[a.Kind][a.Stage]
	if t.micro != nil {
		d *= t.micro(a)
	}
	return d
}

// both returns the time of a joined forward and backward.
func (t *table) both(forward, backward Action) float64 {
	if len(t.pair) == 0 {
		return t.of(forward) + t.of(backward)
	}
	d := t.pair[forward.Stage]
	if t.micro != nil {
		d *= t.micro(forward)
	}
	return d
}
