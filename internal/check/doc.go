// Package check compares Galley with results that other frameworks recorded: ops one by one, whole models
// over training steps, tokenizers, and a physics-informed network with second derivatives in its loss. It
// also compares Galley with itself: models trained on many devices, with every kind of strategy, with one
// device (Strategies); one program for several devices of an accelerator with one device (Devices); and the
// planner's predictions with this machine (Planner).
//
// Each check reads a directory or a file, prints what differs, and ends with one line of counts. The checks
// of sharding (check/sharding) and of published runs (check/runs) are packages of their own.
package check
