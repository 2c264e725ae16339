// Package strict reads what people write: files of bounded size, YAML of bounded depth in which unknown keys,
// fractions where whole numbers belong and further documents are mistakes, and words, with the nearest to a
// mistyped one. No text makes it panic, and none takes more than moments.
package strict
