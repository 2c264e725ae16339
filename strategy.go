package galley

import "github.com/galley-ml/galley/strategy"

// Strategy is how a training step is spread over devices. The zero value is one device.
type Strategy = strategy.Strategy
