// Package tapes runs training steps on many in-process devices: a config and its strategy become the stages,
// meshes and schedule of package step, which makes a tape for every device.
package tapes
