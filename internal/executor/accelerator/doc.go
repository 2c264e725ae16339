// Package accelerator runs training steps on a backend, such as XLA on GPUs: as one compiled program, or as
// three where a batch is cut into micro-batches. With a strategy a device group runs each program in SPMD
// execution. On one device the state has the layout that the step wants: parameters that one product takes
// are fused, and weights that products take in bf16 are split master weights, an upper half for the products
// and a lower one for the update.
package accelerator
