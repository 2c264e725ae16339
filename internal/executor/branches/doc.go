// Package branches runs a training step on two devices by branch parallelism: parts of the step that do not
// depend on each other run at the same time, found by package branch in the whole step, forward, backward and
// update. Each parameter and its slots are on the device that updates it; results are the same as on one
// device.
//
//	e, err := branches.New(c, newLocal) // c.Strategy.Branches is 2; newLocal makes an executor of one device
package branches
