// Package bench measures what users pay for: matrix products, whole training steps, attention's memory. Each
// result is one struct that prints as a line and as JSON.
package bench
