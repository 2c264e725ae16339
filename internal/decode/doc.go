// Package decode runs a language model with a paged KV cache on a backend: what package paged does on the
// host, as whole programs.
//
// Weights and pages stay on the backend. A program is compiled for a bucket, a number of sequences and of
// pages; smaller batches are padded with rows that write to an unused page. The pages' memory is donated to
// programs, which return it. One program reads prompts in chunks (prefill); another runs several decoding
// steps of many sequences, samples tokens itself and feeds them to the next step, so that the host is
// involved only once in several steps.
package decode
