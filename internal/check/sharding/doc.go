// Package sharding compares how ops are sharded, how shardings spread through programs and how tensors are
// resharded with facts that were read out of the tests of others: Paddle's SPMD rules (Spmd) and Shardy's
// (Shardy).
package sharding
