// Package distribute partitions a program over a device mesh: shardings come from annotations and inference,
// or from a search, and every device gets a local program with the necessary collectives. Nothing runs; all
// communication is listed with the source line that causes it, its size and its reason.
package distribute
