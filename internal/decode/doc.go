// Package decode computes a language model over pages of keys and values on a backend: package paged's work
// as whole programs.
//
// Weights and pages stay on the backend. A program is for a bucket, so many sequences of so many pages;
// shorter batches are filled up with rows that write to a page of nobody. Programs are given the pages'
// memory and give it back (they are donated). Prompts are read in chunks by one program; another takes
// several steps of many sequences, chooses tokens itself and feeds them to its next step, so the host is
// asked once in so many steps.
package decode
