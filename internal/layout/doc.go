// Package layout says the layout of a training run on devices: its parameters, their gradients and the
// optimizer's slots, its batches and the values between layers. Whatever asks for a sharding is gathered
// here: a strategy's degrees and its stage of ZeRO, annotations of parameters by name, plans of layers by
// name, and the built-in plans for the families of package models.
package layout
