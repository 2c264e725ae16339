// Package layout computes the shardings of a training run: of its parameters, gradients and optimizer slots,
// its batches and the values between layers. It gathers every request for a sharding in one place: a
// strategy's degrees and ZeRO stage, annotations of parameters by name, plans of layers by name, and the
// built-in plans of the model families.
package layout
