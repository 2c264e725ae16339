package optim

import "math"

// Schedule returns the learning rate of each step; the first step is 0.
type Schedule interface {
	At(step int) float64
}

// Constant is a constant rate after a linear warm-up.
type Constant struct {
	LR     float64
	Warmup int
}

// At returns the rate of a step.
func (s Constant) At(step int) float64 { return s.LR * warm(step, s.Warmup) }

// Linear decays linearly from LR to Final over Steps, after a linear warm-up.
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

// Cosine decays along half a cosine from LR to Final over Steps, after a linear warm-up.
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

// warm returns the warm-up factor of a step; it is never zero, so that the first step has an effect.
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

// WSD is warm-up, stable, decay: a linear warm-up, a constant LR, and a linear decay to Final over the last
// Decay of Steps. The stable phase can be extended before the decay is started. [Hu et al. 2024]
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

// CosineRestarts repeats a cosine decay from LR to Final over Period steps; each period is Growth times as
// long as the one before, and zero means 1. [Loshchilov and Hutter 2017]
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

// InverseSqrt decays with the inverse square root of the steps since the warm-up. [Vaswani et al. 2017]
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
