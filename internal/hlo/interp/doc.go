// Package interp runs StableHLO programs, slowly and plainly: what a program means, where no plugin is at
// hand.
//
// All devices of a program go through it in step, so that collectives see every part:
//
//	p, _ := hlo.Parse(text)
//	results, err := interp.Run(p, [][]array.Array{{x}}) // one device with one operand
//
// Every element is a float64 or an int64 that is rounded to its own type after each operation.
package interp
