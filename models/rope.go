package models

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/op"
)

// Rope is how rotary position embeddings are spaced.
type Rope struct {
	// Type is default, linear or llama3.
	Type string
	// Theta is the base of the wavelengths.
	Theta float64
	// Factor stretches positions, for linear and llama3.
	Factor float64
	// LowFreqFactor, HighFreqFactor and OriginalPositions are llama3's: where between the two ends of the spectrum
	// stretching sets in, relative to the length that the model was first trained on.
	LowFreqFactor, HighFreqFactor float64
	OriginalPositions             int
}

func (r Rope) validate(headDim int) error {
	if headDim%2 != 0 {
		return fmt.Errorf("head_dim: got %d, want an even number for rotary positions", headDim)
	}
	if !positive(r.Theta) {
		return fmt.Errorf("rope_theta: got %v, want a positive number", r.Theta)
	}
	switch r.Type {
	case "default":
		return nil
	case "linear":
		if !positive(r.Factor) {
			return fmt.Errorf("rope type linear: factor: got %v, want a positive number", r.Factor)
		}
		return nil
	case "llama3":
		if !positive(r.Factor) || !positive(r.LowFreqFactor) || !positive(r.HighFreqFactor) ||
			r.HighFreqFactor <= r.LowFreqFactor || r.OriginalPositions < 1 {
			return fmt.Errorf("rope type llama3: want factor %v > 0, low_freq_factor %v < high_freq_factor %v, "+
				"original_max_position_embeddings %d > 0", r.Factor, r.LowFreqFactor, r.HighFreqFactor, r.OriginalPositions)
		}
		return nil
	}
	return fmt.Errorf("rope type %q: not supported: want default, linear or llama3", r.Type)
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

// config is what the op takes, the position aside.
func (r Rope) config(headDim int) *op.RoPEConfig {
	if r.Type == "default" {
		return &op.RoPEConfig{Theta: r.Theta}
	}
	return &op.RoPEConfig{Freqs: r.Frequencies(headDim)}
}

// Frequencies is the angle per position of each pair of a head's elements.
func (r Rope) Frequencies(headDim int) []float64 {
	freqs := make([]float64, headDim/2)
	for i := range freqs {
		f := math.Pow(r.Theta, -2*float64(i)/float64(headDim))
		switch r.Type {
		case "linear":
			f /= r.Factor
		case "llama3":
			f = r.llama3(f)
		}
		freqs[i] = f
	}
	return freqs
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
