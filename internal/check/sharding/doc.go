// Package sharding compares sharding rules of ops, sharding propagation through programs and resharding
// with facts that were extracted from other projects' tests: Paddle's SPMD rules (Spmd) and Shardy's
// (Shardy).
package sharding
