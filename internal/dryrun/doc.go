// Package dryrun plans a training run to its last byte without taking any of its memory: a model of shapes
// alone, the tapes of every device, and what each of them will take.
//
//	p, err := dryrun.Plan(dryrun.Run{Model: config, Batch: 16, Seq: 128, Strategy: s})
//	p.Devices[0].Memory.Peak() // what galley train then takes on device 0
package dryrun
