// Package interp is a slow and simple interpreter of StableHLO programs, for use without a
// plugin.
//
// All devices of a program run in lockstep, so that collectives have every part:
//
//	p, _ := hlo.Parse(text)
//	results, err := interp.Run(p, [][]array.Array{{x}}) // one device with one operand
//
// Every element is a float64 or an int64 that is rounded to its own type after each operation.
package interp
