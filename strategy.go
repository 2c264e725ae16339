package galley

import "github.com/galley-ml/galley/strategy"

// Strategy is how a training step is spread over devices. The zero value is one device.
type Strategy = strategy.Strategy

// ParseStrategy reads degrees, dp=2,tp=2,pp=2, into a strategy.
func ParseStrategy(text string) (Strategy, error) { return strategy.Parse(text) }
