//go:build noasm || !amd64

package kernel

// vectorTables returns nil: this build has only the plain loops.
func vectorTables() []namedTable { return nil }
