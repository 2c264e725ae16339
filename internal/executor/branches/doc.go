// Package branches runs a training step on two devices by branch parallelism: parts of the step that do not
// depend on each other run at the same time, found by package branch in the whole step, forward, backward and
// update. Each parameter and its slots are on the device that updates it; the numbers are those of one
// device.
//
//	e, err := branches.New(c) // c.Strategy.Branches is 2
package branches
