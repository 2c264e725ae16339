// Package check compares Galley with results that other frameworks recorded: ops one by one, whole models over training
// steps, a physics-informed network with second derivatives in its loss, and how ops are sharded and tensors resharded; and the
// planner's predictions with published training runs (Runs) and with this machine (Planner).
// It also compares Galley with itself: models trained on many devices, in every way there is, with one device.
//
// Each check reads a directory or a file, prints what differs, and ends with one line of counts.
package check
