// Package evaluation is how good a model is: its loss and its metrics, each a quotient of two sums over all
// batches. They are computed where the model is, so that only two numbers of each leave the devices.
package evaluation
