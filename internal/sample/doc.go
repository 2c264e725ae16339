// Package sample chooses tokens by their logits.
//
// Penalties and biases change the logits; what is left is divided by the temperature, cut to the likeliest
// tokens and drawn from by the request's own stream of random numbers.
package sample
