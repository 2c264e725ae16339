// Package runtime runs the programs of many devices.
//
// Arrays outside are whole: Run shards the arguments by their Specs, runs each device's program on a
// goroutine of its own in an in-process world, and gathers the results.
//
//	world, err := inproc.New(m.Size())
//	out, err := runtime.Run(ctx, world, program, args)
package runtime
