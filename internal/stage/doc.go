// Package stage splits a program into the stages of a pipeline, and each stage into its forward and backward
// pass.
//
// A stage is an ordinary program: its inputs are its own parameters, its share of the batch and the outputs
// of the previous stage; its outputs are passed on. Split builds one joint program for each stage, forward
// and backward with the accumulation of gradients, so that sharding is inferred once for both. Cut then
// splits a program in two: values that the first part computes and the second needs are passed on or, with
// recomputation, computed again. The same Cut splits the joint program into forward and backward pass, and
// the backward pass into gradients of inputs and of weights.
package stage
