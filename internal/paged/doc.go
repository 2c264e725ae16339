// Package paged computes language models for serving: many sequences in one step, each with its keys and
// values in pages that are anywhere.
//
// A Model is made of a model's parts, its weights packed. A Step takes tokens of several sequences, chunks of
// prompts and single tokens alike, writes their keys and values into pages and gives logits. All sums have
// one order, whatever else is in the step: a sequence's logits are those that it has alone, to the last bit.
package paged
