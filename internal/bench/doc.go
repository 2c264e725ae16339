// Package bench has benchmarks of what matters to users: matrix products, whole training steps, memory of
// attention. Each result is one struct that prints as a line and as JSON.
package bench
