package data

import _ "embed"

// The first 28 chapters of Moby-Dick; or, The Whale, by Herman Melville (1851), which is in the public
// domain.
//
//go:embed moby-dick.txt
var mobyDick string

// MobyDick returns the first 28 chapters of Herman Melville's novel, a quarter of a megabyte: enough text to
// see a small model learn.
func MobyDick() string { return mobyDick }
