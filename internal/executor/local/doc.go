// Package local runs training steps on one device of the host: compiled, or eagerly op by op. The parameters'
// values stay in the model; the executor holds the optimizer's slots.
package local
