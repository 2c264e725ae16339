// Package strategy defines how a training step is distributed over devices: degrees of parallelism, pipeline
// schedule, ZeRO, recomputation, overlap and offload. A Strategy is a value that is checked, printed and
// parsed here; device meshes and the schedule are derived from it.
package strategy
