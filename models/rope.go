package models

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/op"
)

// Rope configures rotary position embeddings.
type Rope struct {
	// Type is default, linear, dynamic, yarn, longrope or llama3.
	Type string
	// Theta is the base of the frequencies.
	Theta float64
	// Factor stretches positions, in all types but default. longrope stretches by its lists and derives its
	// attention factor from this one, which is Positions over OriginalPositions if it is 0.
	Factor float64
	// Part is the fraction of a head that is rotated, from its first element on; 0 means all of it.
	Part float64
	// Interleaved pairs adjacent elements instead of elements half a head apart.
	Interleaved bool
	// LowFreqFactor and HighFreqFactor are llama3's: the range of frequencies, relative to OriginalPositions,
	// over which stretching sets in. OriginalPositions is the sequence length of the original training.
	LowFreqFactor, HighFreqFactor float64
	OriginalPositions             int
	// Positions is the longest sequence that dynamic leaves unchanged.
	Positions int
	// BetaFast and BetaSlow are yarn's: pairs with more than BetaFast rotations within OriginalPositions are
	// left unchanged, those with fewer than BetaSlow are stretched fully; 0 means 32 and 1. Untruncated does not
	// round the bounds to whole pairs.
	BetaFast, BetaSlow float64
	Untruncated        bool
	// MScale and MScaleAll determine yarn's attention factor if both are set.
	MScale, MScaleAll float64
	// AttentionFactor multiplies rotated elements, in yarn and longrope; 0 means the value derived from Factor.
	AttentionFactor float64
	// Short and Long are longrope's stretching factors of each pair, for sequences up to OriginalPositions and
	// for longer ones.
	Short, Long []float64
}

func ropeTypes() []string {
	return []string{"default", "linear", "dynamic", "yarn", "longrope", "llama3"}
}

func (r Rope) validate(headDim int) error {
	if n := r.turned(headDim); n < 2 || n%2 != 0 || n > headDim {
		return fmt.Errorf("head_dim %d, partial_rotary_factor %v: %d elements turn: "+
			"want an even number up to head_dim",
			headDim, r.part(), n)
	}
	if !positive(r.Theta) {
		return fmt.Errorf("rope_theta: got %v, want a positive number", r.Theta)
	}
	switch r.Type {
	case "default":
		return nil
	case "linear":
		return r.wantFactor()
	case "dynamic":
		if r.turned(headDim) == 2 || r.Positions < 1 {
			return fmt.Errorf("rope type dynamic: %d elements turn, max_position_embeddings %d: "+
				"want 4 or more, and 1 or more",
				r.turned(headDim), r.Positions)
		}
		return r.wantFactor()
	case "yarn":
		return r.validateYarn()
	case "longrope":
		return r.validateLong(headDim)
	case "llama3":
		if !positive(r.Factor) || !positive(r.LowFreqFactor) || !positive(r.HighFreqFactor) ||
			r.HighFreqFactor <= r.LowFreqFactor || r.OriginalPositions < 1 {
			return fmt.Errorf("rope type llama3: want factor %v > 0, low_freq_factor %v < high_freq_factor %v, "+
				"original_max_position_embeddings %d > 0", r.Factor, r.LowFreqFactor, r.HighFreqFactor,
				r.OriginalPositions)
		}
		return nil
	}
	return fmt.Errorf("rope type %q: not supported: want %s", r.Type, listed(r.Type, ropeTypes()))
}

func (r Rope) wantFactor() error {
	if !positive(r.Factor) {
		return fmt.Errorf("rope type %s: factor: got %v, want a positive number", r.Type, r.Factor)
	}
	return nil
}

func (r Rope) validateYarn() error {
	if r.Theta == 1 || r.OriginalPositions < 1 || r.BetaFast < 0 || r.BetaSlow < 0 || r.AttentionFactor < 0 {
		return fmt.Errorf("rope type yarn: want rope_theta %v other than 1, "+
			"original_max_position_embeddings %d > 0, beta_fast %v, beta_slow %v and attention_factor %v no less "+
			"than 0",
			r.Theta, r.OriginalPositions, r.BetaFast, r.BetaSlow, r.AttentionFactor)
	}
	return r.wantFactor()
}

func (r Rope) validateLong(headDim int) error {
	n := r.turned(headDim) / 2
	if len(r.Short) != n || len(r.Long) != n {
		return fmt.Errorf("rope type longrope: got %d in short_factor, %d in long_factor: "+
			"want %d, one for each pair",
			len(r.Short), len(r.Long), n)
	}
	bad := func(x float64) bool { return !positive(x) }
	if slices.ContainsFunc(r.Short, bad) || slices.ContainsFunc(r.Long, bad) || r.OriginalPositions < 1 {
		return fmt.Errorf("rope type longrope: want positive numbers in short_factor and long_factor, "+
			"original_max_position_embeddings %d > 0", r.OriginalPositions)
	}
	if r.Factor < 0 || r.AttentionFactor < 0 {
		return fmt.Errorf("rope type longrope: factor %v, attention_factor %v: want no negative numbers",
			r.Factor, r.AttentionFactor)
	}
	return nil
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

func (r Rope) part() float64 {
	if r.Part == 0 {
		return 1
	}
	return r.Part
}

// turned returns the number of elements of a head that are rotated.
func (r Rope) turned(headDim int) int { return int(float64(headDim) * r.part()) }

// config returns the op's configuration for sequences of a length, except for the position.
func (r Rope) config(headDim int) func(length int) op.RoPEConfig {
	c := op.RoPEConfig{Factor: r.attentionFactor()}
	if n := r.turned(headDim); n < headDim {
		c.Dim = n
	}
	if r.Interleaved {
		c.Style = "interleaved"
	}
	if r.Type == "default" {
		c.Theta = r.Theta
		return func(int) op.RoPEConfig { return c }
	}
	return func(length int) op.RoPEConfig {
		c := c
		c.Freqs = r.Frequencies(headDim, length)
		return c
	}
}

// fixedUpTo returns the longest sequence up to which frequencies do not depend on the length; 0 means no
// limit.
func (r Rope) fixedUpTo() int {
	switch r.Type {
	case "dynamic":
		return r.Positions
	case "longrope":
		return r.OriginalPositions
	}
	return 0
}

// attentionFactor returns the factor of the op; 0 means 1.
func (r Rope) attentionFactor() float64 {
	if r.AttentionFactor != 0 {
		return r.AttentionFactor
	}
	switch r.Type {
	case "yarn":
		if r.MScale != 0 && r.MScaleAll != 0 {
			return mscale(r.Factor, r.MScale) / mscale(r.Factor, r.MScaleAll)
		}
		return mscale(r.Factor, 1)
	case "longrope":
		factor := r.Factor
		if factor == 0 {
			factor = float64(r.Positions) / float64(r.OriginalPositions)
		}
		if factor > 1 {
			return math.Sqrt(1 + math.Log(factor)/math.Log(float64(r.OriginalPositions)))
		}
	}
	return 0
}

// mscale returns the factor of attention for stretched positions. [Peng et al. 2023]
func mscale(factor, by float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*by*math.Log(factor) + 1
}

// Frequencies returns the angle per position of each rotated pair of a head's elements, in a sequence of a
// length.
func (r Rope) Frequencies(headDim, length int) []float64 {
	n := r.turned(headDim)
	theta := r.Theta
	if r.Type == "dynamic" && length > r.Positions { // [bloc97 2023]
		stretch := r.Factor*float64(length)/float64(r.Positions) - (r.Factor - 1)
		theta *= math.Pow(stretch, float64(n)/float64(n-2))
	}
	freqs := make([]float64, n/2)
	for i := range freqs {
		freqs[i] = math.Pow(theta, -2*float64(i)/float64(n))
	}
	switch r.Type {
	case "linear":
		for i := range freqs {
			freqs[i] /= r.Factor
		}
	case "yarn":
		r.yarn(freqs, n)
	case "longrope":
		factors := r.Short
		if length > r.OriginalPositions {
			factors = r.Long
		}
		for i := range freqs {
			freqs[i] /= factors[i]
		}
	case "llama3":
		for i, f := range freqs {
			freqs[i] = r.llama3(f)
		}
	}
	return freqs
}

// yarn stretches pairs depending on their number of rotations: fast ones not at all. n elements are rotated.
func (r Rope) yarn(freqs []float64, n int) {
	fast, slow := r.BetaFast, r.BetaSlow
	fill(&fast, 32)
	fill(&slow, 1)
	pair := func(turns float64) float64 {
		return float64(n) * math.Log(float64(r.OriginalPositions)/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	low, high := pair(fast), pair(slow)
	if !r.Untruncated {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(n-1))
	if low == high {
		high += 0.001
	}
	for i, f := range freqs {
		ramp := min(1, max(0, (float64(i)-low)/(high-low)))
		freqs[i] = f/r.Factor*ramp + f*(1-ramp)
	}
}

// llama3 leaves high frequencies unchanged, stretches low ones and interpolates between them.
func (r Rope) llama3(f float64) float64 {
	wavelength := 2 * math.Pi / f
	turns := float64(r.OriginalPositions) / wavelength
	switch {
	case turns < r.LowFreqFactor:
		return f / r.Factor
	case turns > r.HighFreqFactor:
		return f
	}
	smooth := (turns - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor)
	return (1-smooth)*f/r.Factor + smooth*f
}
