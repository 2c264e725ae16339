package models

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/op"
)

// Rope is how rotary position embeddings are spaced.
type Rope struct {
	// Type is default, linear, dynamic, yarn, longrope or llama3.
	Type string
	// Theta is the base of the wavelengths.
	Theta float64
	// Factor stretches positions, in all types but default. longrope stretches by its lists and takes its
	// attention factor from this one, which is Positions over OriginalPositions where it is 0.
	Factor float64
	// Part is the share of a head that turns, from its first element on; 0 means all of it.
	Part float64
	// Interleaved pairs an element with its neighbour, in place of the one half a head away.
	Interleaved bool
	// LowFreqFactor and HighFreqFactor are llama3's: where between the two ends of the spectrum stretching
	// sets in, relative to OriginalPositions, the length that the model was first trained on.
	LowFreqFactor, HighFreqFactor float64
	OriginalPositions             int
	// Positions is the longest sequence that dynamic leaves as it is.
	Positions int
	// BetaFast and BetaSlow are yarn's: how often a pair turns within OriginalPositions that is left alone,
	// and that is stretched fully; 0 means 32 and 1. Untruncated does not round the pairs between to whole
	// ones.
	BetaFast, BetaSlow float64
	Untruncated        bool
	// MScale and MScaleAll make up yarn's attention factor where both are set.
	MScale, MScaleAll float64
	// AttentionFactor multiplies what turns, in yarn and longrope; 0 means what they make of Factor.
	AttentionFactor float64
	// Short and Long are longrope's stretching of each pair in sequences up to OriginalPositions, and longer
	// ones.
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

// turned returns how many elements of a head turn.
func (r Rope) turned(headDim int) int { return int(float64(headDim) * r.part()) }

// config returns what the op takes for sequences of a length, the position aside.
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

// fixedUpTo returns the longest sequence whose frequencies are those of all shorter ones; 0 is that there is
// no limit.
func (r Rope) fixedUpTo() int {
	switch r.Type {
	case "dynamic":
		return r.Positions
	case "longrope":
		return r.OriginalPositions
	}
	return 0
}

// attentionFactor returns what the op multiplies by; 0 for 1.
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

// mscale is by how much attention grows where positions are stretched. [Peng et al. 2023]
func mscale(factor, by float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*by*math.Log(factor) + 1
}

// Frequencies returns the angle per position of each pair of a head's elements that turns, in a sequence of a
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

// yarn stretches pairs by how often they turn: those that turn fast not at all. n elements turn.
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

// llama3 leaves high frequencies alone, stretches low ones and goes smoothly from the one to the other.
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
