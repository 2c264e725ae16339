// Package interpreter is a backend whose devices run StableHLO by package interp: what accelerators are sent
// is tried on it where a machine has none.
package interpreter
