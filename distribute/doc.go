// Package distribute spreads a program over the devices of a mesh: every value gets its place, by annotations
// from which the rest is inferred or by search, and every device its own program with the collectives between
// them. Nothing runs; what the devices exchange is listed, with the line that it is for, its size and its
// reason.
package distribute
