// Package runtime runs the programs of many devices.
//
// Arguments and results are whole arrays: Run shards the arguments by their Specs, runs each device's program
// on a goroutine of its own in an in-process world, and gathers the results.
//
//	world, err := inproc.New(m.Size())
//	out, err := runtime.Run(ctx, world, program, args)
package runtime
