// Package gen holds the avo generators of the assembly in internal/kernel.
package gen
