//go:build noasm || !amd64

package kernel

// vectorTables returns nothing: this build has the plain loops alone.
func vectorTables() []namedTable { return nil }
