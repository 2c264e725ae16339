// Package strict reads what people write: YAML, in which unknown keys are mistakes and no text makes it panic, and words,
// with the nearest to a mistyped one.
package strict
