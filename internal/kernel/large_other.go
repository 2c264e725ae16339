//go:build !linux

package kernel

func adviseHuge([]byte) {}

func populate([]byte) {}
