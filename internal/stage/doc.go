// Package stage cuts a program into the stages of a pipeline, and each stage into what it does forward and
// backward.
//
// A stage is a program like any other: its own parameters, its share of the batch and what the stage before
// hands on go in, what it hands on goes out. Split builds for each stage one joint program, forward and
// backward with the sums of gradients, so that sharding is inferred once for both. Cut then parts a program
// in two: what the first part computes and the second needs is handed over or, where recomputing is asked
// for, computed again. The same Cut parts the joint program into forward and backward, and the backward one
// into gradients of inputs and of weights.
package stage
