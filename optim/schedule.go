package optim

import "math"

// Schedule is the learning rate of each step, the first being 0.
type Schedule interface {
	At(step int) float64
}

// Constant is the same rate, after a linear warm-up.
type Constant struct {
	LR     float64
	Warmup int
}

// At returns the rate of a step.
func (s Constant) At(step int) float64 { return s.LR * warm(step, s.Warmup) }

// Linear falls in a straight line from LR to Final over Steps, after a linear warm-up.
type Linear struct {
	LR, Final     float64
	Warmup, Steps int
}

// At returns the rate of a step.
func (s Linear) At(step int) float64 {
	if step < s.Warmup {
		return s.LR * warm(step, s.Warmup)
	}
	return s.LR + (s.Final-s.LR)*progress(step, s.Warmup, s.Steps)
}

// Cosine falls along half a cosine from LR to Final over Steps, after a linear warm-up.
type Cosine struct {
	LR, Final     float64
	Warmup, Steps int
}

// At returns the rate of a step.
func (s Cosine) At(step int) float64 {
	if step < s.Warmup {
		return s.LR * warm(step, s.Warmup)
	}
	return s.Final + (s.LR-s.Final)*(1+math.Cos(math.Pi*progress(step, s.Warmup, s.Steps)))/2
}

// warm returns how much of the rate step has: never zero, so that the first step moves.
func warm(step, warmup int) float64 {
	if step >= warmup {
		return 1
	}
	return float64(step+1) / float64(warmup)
}

// progress returns how far step is between the end of the warm-up and the last step.
func progress(step, warmup, steps int) float64 {
	if steps <= warmup {
		return 1
	}
	return min(1, float64(step-warmup)/float64(steps-warmup))
}

// WSD is a warm-up, a stretch at LR and a fall in a straight line to Final over the last Decay of Steps: the
// stretch may be as long as one likes before one decides to end. [Hu et al. 2024]
type WSD struct {
	LR, Final            float64
	Warmup, Decay, Steps int
}

// At returns the rate of a step.
func (s WSD) At(step int) float64 {
	if step < s.Warmup {
		return s.LR * warm(step, s.Warmup)
	}
	return s.LR + (s.Final-s.LR)*max(0, progress(step, max(s.Warmup, s.Steps-s.Decay), s.Steps))
}

// CosineRestarts falls along half a cosine from LR to Final over Period steps, again and again; each period
// is Growth times as long as the one before it, and zero means 1. [Loshchilov and Hutter 2017]
type CosineRestarts struct {
	LR, Final      float64
	Warmup, Period int
	Growth         float64
}

// At returns the rate of a step.
func (s CosineRestarts) At(step int) float64 {
	if step < s.Warmup {
		return s.LR * warm(step, s.Warmup)
	}
	at, period := float64(step-s.Warmup), max(1, float64(s.Period))
	for at >= period {
		at -= period
		period *= max(1, orElse(s.Growth, 1))
	}
	return s.Final + (s.LR-s.Final)*(1+math.Cos(math.Pi*at/period))/2
}

// InverseSqrt falls with the square root of the steps since the warm-up. [Vaswani et al. 2017]
type InverseSqrt struct {
	LR     float64
	Warmup int
}

// At returns the rate of a step.
func (s InverseSqrt) At(step int) float64 {
	if step < s.Warmup {
		return s.LR * warm(step, s.Warmup)
	}
	least := float64(max(s.Warmup, 1))
	return s.LR * math.Sqrt(least/max(least, float64(step+1)))
}
