// Package pass has the passes that rewrite whole programs, one a file. A pass takes a program and returns a
// new one; the order in which they run is the list in passes.go.
//
//	f, err := pass.Grad(f, []int{0})     // results of f, then the gradient of its first result
//	f, err = pass.Optimize(f)            // folded, merged, pruned
//	f, err = pass.Fuse(f)                // ops joined, for one device
package pass
