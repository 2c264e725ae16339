package jit

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Code is compiled code. Its memory is released when the Code is garbage collected.
type Code struct {
	memory  []byte
	scratch int
	streams int
	size    int
}

// Compile compiles a program. It returns an error if the instruction set does not support it, or if memory
// cannot be made executable.
func Compile(p *Program, set Set) (*Code, error) {
	text, scratch, err := compile(p, set)
	if err != nil {
		return nil, err
	}
	m, err := newMemory(text)
	if err != nil {
		return nil, err
	}
	c := &Code{memory: m, scratch: scratch, streams: p.Streams, size: len(text)}
	runtime.AddCleanup(c, freeMemory, m)
	return c, nil
}

// Size returns the size of the code in bytes.
func (c *Code) Size() int { return c.size }

// Scratch returns the bytes of scratch memory that a run needs.
func (c *Code) Scratch() int { return c.scratch }

// Call describes one run over some blocks of rows.
type Call struct {
	// Rows is the number of rows in a block, and Blocks the number of blocks; each is at least one.
	Rows, Blocks int
	// Base is the address of each stream's first row, Stride the distance between rows of a block, and Block the
	// distance between blocks, in bytes.
	Base          []unsafe.Pointer
	Stride, Block []int
	// Scratch is the run's own scratch memory.
	Scratch []byte
}

// Run runs the code. The memory behind the pointers must stay alive until it returns.
func (c *Code) Run(r *Call) {
	if min(r.Rows, r.Blocks) < 1 || len(r.Base) != c.streams || len(r.Stride) != c.streams ||
		len(r.Block) != c.streams || len(r.Scratch) < c.scratch {
		panic(fmt.Sprintf("jit: run of %d blocks of %d rows with %d streams and %d bytes: want %d and %d", r.Blocks,
			r.Rows, len(r.Base), len(r.Scratch), c.streams, c.scratch))
	}
	var few [argStreams + argStream*16]uintptr
	args := few[:]
	if n := argStreams + argStream*c.streams; n > len(few) {
		args = make([]uintptr, n)
	}
	args[argRows], args[argBlocks] = uintptr(r.Rows), uintptr(r.Blocks)
	args[argScratch] = uintptr(unsafe.Pointer(unsafe.SliceData(r.Scratch)))
	for i, p := range r.Base {
		k := argStreams + argStream*i
		args[k], args[k+1], args[k+2] = uintptr(p), uintptr(r.Stride[i]), uintptr(r.Block[i]-r.Rows*r.Stride[i])
	}
	call(uintptr(unsafe.Pointer(&c.memory[0])), &args[0])
	runtime.KeepAlive(r.Scratch)
	runtime.KeepAlive(r.Base)
	runtime.KeepAlive(c)
}
