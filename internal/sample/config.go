package sample

import (
	"fmt"
	"math"
)

// Config says how tokens are chosen. The zero value takes the likeliest.
type Config struct {
	// Temperature divides the logits before a token is drawn; 0 takes the likeliest token.
	Temperature float64
	// TopK draws among the likeliest k tokens only; 0 is all.
	TopK int
	// TopP draws among the likeliest tokens that together have this probability; 0 and 1 are all.
	TopP float64
	// MinP leaves out tokens that are less likely than this share of the likeliest's probability.
	MinP float64
	// Repetition divides positive logits of tokens that were seen, in the prompt too, and multiplies negative
	// ones; 0 means 1.
	Repetition float64
	// Presence is subtracted from the logits of tokens that were generated, Frequency once for each time.
	Presence, Frequency float64
	// Bias is added to tokens' logits; -100 or less forbids one, as OpenAI's API has it.
	Bias map[int32]float64
	// Seed decides the draws.
	Seed uint64
	// Top is of how many of the likeliest tokens the log-probabilities are given.
	Top int
}

// Validate reports what is impossible.
func (c Config) Validate(vocab int) error {
	switch {
	case !(c.Temperature >= 0) || math.IsInf(c.Temperature, 0):
		return fmt.Errorf("temperature: got %v, want 0 or more", c.Temperature)
	case c.TopK < 0:
		return fmt.Errorf("top_k: got %d, want 0 or more", c.TopK)
	case !(c.TopP >= 0 && c.TopP <= 1):
		return fmt.Errorf("top_p: got %v, want 0 to 1", c.TopP)
	case !(c.MinP >= 0 && c.MinP <= 1):
		return fmt.Errorf("min_p: got %v, want 0 to 1", c.MinP)
	case !(c.Repetition >= 0) || math.IsInf(c.Repetition, 0):
		return fmt.Errorf("repetition_penalty: got %v, want a positive number", c.Repetition)
	case math.Abs(c.Presence) > 2 || c.Presence != c.Presence:
		return fmt.Errorf("presence_penalty: got %v, want -2 to 2", c.Presence)
	case math.Abs(c.Frequency) > 2 || c.Frequency != c.Frequency:
		return fmt.Errorf("frequency_penalty: got %v, want -2 to 2", c.Frequency)
	case c.Top < 0 || c.Top > 100:
		return fmt.Errorf("logprobs: got %d, want 0 to 100", c.Top)
	}
	for id, b := range c.Bias {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("logit_bias: token %d: the vocabulary has %d", id, vocab)
		}
		if b != b || math.Abs(b) > 1e6 {
			return fmt.Errorf("logit_bias: token %d: got %v, want -100 to 100", id, b)
		}
	}
	return nil
}
