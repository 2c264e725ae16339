// Package runtime runs the programs of many devices.
//
// Its one idea is that arrays on the outside are whole: Run cuts the arguments as their Specs say, runs each
// device's program on a goroutine of its own in an in-process world, and puts the results together again.
//
//	world, err := inproc.New(m.Size())
//	out, err := runtime.Run(ctx, world, program, args)
package runtime
