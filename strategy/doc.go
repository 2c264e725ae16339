// Package strategy says how a training step is spread over devices: the degrees of parallelism, the
// pipeline's schedule, and what is split, computed again, overlapped or kept elsewhere. A Strategy is a
// value: it is checked, printed and parsed here, and the meshes of its devices and its schedule follow from
// it.
package strategy
