// Package strict reads YAML that people write: unknown keys are mistakes, and no text makes it panic.
package strict
