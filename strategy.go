package galley

import "github.com/galley-ml/galley/strategy"

// Strategy describes how a training step is distributed over devices: degrees of parallelism, ZeRO stage,
// pipeline schedule, recomputation and more. The zero value is one device.
type Strategy = strategy.Strategy
