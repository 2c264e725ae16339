//go:build !linux || !amd64 || noasm

package jit

import "fmt"

func newMemory([]byte) ([]byte, error) {
	return nil, fmt.Errorf("this build has no generated code: it is for Linux on amd64, without the tag noasm")
}

func freeMemory([]byte) {}

func call(uintptr, *uintptr) {}
