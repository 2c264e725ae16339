// Package accelerator runs training steps on a backend, such as XLA on GPUs: as one compiled program,
// or as three if a batch is split into micro-batches. With a strategy a device group runs each program
// in SPMD execution. On one device parameters that one product reads are fused, and weights that
// products read in bf16 are split master weights: an upper half for the products and a lower half for
// the update.
package accelerator
