// Package check compares Galley with results that other frameworks recorded: ops one by one, whole models over training
// steps, and a physics-informed network with second derivatives in its loss.
//
// Each check reads a directory, prints what differs, and ends with one line: N passed, M failed.
package check
