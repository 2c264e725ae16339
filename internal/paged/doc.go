// Package paged runs language models for serving: many sequences in one step, each with a paged key-value
// cache.
//
// A Model is built from a model's parts with packed weights. A Step takes tokens of several sequences, both
// chunks of prompts and single tokens, writes their keys and values into pages and returns logits. The order
// of sums does not depend on what else is in the step: a sequence's logits equal, to the last bit, those that
// it has alone.
package paged
