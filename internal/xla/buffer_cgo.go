//go:build cgo && linux

package xla

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// Buffer is an array on the device, or one that will be there when the run that computes it has started; the
// plugin tracks its completion.
type Buffer struct {
	d    *Device
	t    ir.Type
	done chan struct{}
	b    handle // valid after done, unless err is set
	err  error
	gone atomic.Bool // donated or freed
	// by is the program that computes it, if any: errors while it runs are reported when the array is
	// read.
	by string
}

var errGone = errors.New("it was donated or freed")

// pending returns a buffer that a run will fill.
func pending(d *Device, t ir.Type) *Buffer { return &Buffer{d: d, t: t, done: make(chan struct{})} }

// ready returns a buffer that exists already.
func ready(d *Device, t ir.Type, b handle) *Buffer {
	out := pending(d, t)
	out.set(b, nil)
	return out
}

func (b *Buffer) set(p handle, err error) {
	b.b, b.err = p, err
	close(b.done)
}

// Type returns the array's dtype and shape.
func (b *Buffer) Type() ir.Type { return b.t }

// Read waits for the run that computes the array and copies it to the host.
func (b *Buffer) Read() (array.Array, error) {
	if b.gone.Load() {
		return array.Array{}, fmt.Errorf("xla: buffer %v: %w", b.t, errGone)
	}
	<-b.done
	if b.err != nil {
		return array.Array{}, b.err
	}
	if !b.d.here {
		return array.Array{}, fmt.Errorf("xla: buffer %v: device %d is mocked: it holds nothing", b.t, b.d.id)
	}
	a := array.New(b.t.DType, b.t.Shape...)
	if a.Len() == 0 {
		return a, nil
	}
	if err := b.d.read(b.b, a); err != nil {
		if b.by != "" {
			return array.Array{}, fmt.Errorf("run %s on %s: %w", b.by, b.d.name, err)
		}
		return array.Array{}, fmt.Errorf("xla: copy of %v from %s: %w", b.t, b.d.name, err)
	}
	return a, nil
}

// Free releases the memory once the run that computes the array, and those that use it, are done.
func (b *Buffer) Free() {
	if b.gone.Swap(true) {
		return
	}
	_ = b.d.submit(func() { // a closed device has freed everything
		<-b.done
		if b.b != nil {
			b.d.destroy(b.b)
		}
	})
}
