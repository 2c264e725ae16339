package offload

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// DiskConfig says what a Disk keeps, and where.
type DiskConfig struct {
	// Dir holds the store's file; empty means the system's directory for temporary files. It is made if need be.
	Dir string
	// Types is the tensors'.
	Types []ir.Type
}

// pageBytes is where tensors begin in the file, so that no two share a page of it.
const pageBytes = 4096

// backing is the file; tests put another in its place.
type backing interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// Disk keeps tensors in a file of its own. Each Get starts to read the tensor after it in the background, so
// that reading in order waits only where the disk is slower than what is done with the tensors. In memory it
// has one tensor at most.
type Disk struct {
	mu      sync.Mutex
	types   []ir.Type
	offsets []int64
	bytes   int64
	file    backing // nil when closed
	name    string
	path    string // to be removed at the end; empty where that is done
	ahead   prefetch
}

var _ Store = (*Disk)(nil)

// prefetch is a tensor that is being read, or has been. One that was never started has done nil.
type prefetch struct {
	tensor int
	buf    []byte // reused; the reader's until done is closed
	done   chan struct{}
	err    error
}

// NewDisk makes the file and takes all of its room.
func NewDisk(c DiskConfig) (*Disk, error) {
	types, err := copyTypes(c.Types)
	if err != nil {
		return nil, err
	}
	d := &Disk{types: types, offsets: make([]int64, len(types))}
	for i, t := range types {
		d.offsets[i] = d.bytes
		d.bytes += (int64(t.Bytes()) + pageBytes - 1) / pageBytes * pageBytes
	}
	if c.Dir == "" {
		c.Dir = os.TempDir()
	} else if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return nil, fmt.Errorf("offload: %w", err)
	}
	f, err := os.CreateTemp(c.Dir, "offload-*.bin")
	if err != nil {
		return nil, fmt.Errorf("offload: %w", err)
	}
	d.file, d.name = f, f.Name()
	// A file without a name goes with the process, even one that is killed. Not every system can do that.
	if os.Remove(f.Name()) != nil {
		d.path = f.Name()
	}
	if err := reserve(f, d.bytes); err != nil {
		d.Close()
		return nil, d.failed(fmt.Sprintf("room for %d bytes", d.bytes), err)
	}
	return d, nil
}

// failed reports what the file could not do.
func (d *Disk) failed(what string, err error) error {
	hint := ""
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		hint = ": make room, or offload to another directory or to host memory"
	}
	return fmt.Errorf("offload: %s: %s: %w%s", d.name, what, err, hint)
}

// Put writes a as tensor i.
func (d *Disk) Put(i int, a array.Array) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == nil {
		return errClosed
	}
	if err := check("put", d.types, i, a); err != nil {
		return err
	}
	if d.ahead.done != nil && d.ahead.tensor == i {
		<-d.ahead.done
		d.ahead.done = nil // what was read is old
	}
	if _, err := d.file.WriteAt(a.Bytes(), d.offsets[i]); err != nil {
		return d.failed(fmt.Sprintf("put of tensor %d", i), err)
	}
	return nil
}

// Get reads tensor i, unless that has been done, and starts to read the one after it; after the last comes
// the first.
func (d *Disk) Get(i int, into array.Array) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == nil {
		return errClosed
	}
	if err := check("get", d.types, i, into); err != nil {
		return err
	}
	if err := d.take(i, into.Bytes()); err != nil {
		return d.failed(fmt.Sprintf("get of tensor %d", i), err)
	}
	if next := (i + 1) % len(d.types); next != i {
		d.start(next)
	}
	return nil
}

// GetPart reads bytes of tensor i from an offset on; nothing is read ahead of it.
func (d *Disk) GetPart(i, offset int, into []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == nil {
		return errClosed
	}
	if err := checkPart(d.types, i, offset, into); err != nil {
		return err
	}
	if _, err := d.file.ReadAt(into, d.offsets[i]+int64(offset)); err != nil {
		return d.failed(fmt.Sprintf("get of a part of tensor %d", i), err)
	}
	return nil
}

// take copies tensor i from what was read ahead, or reads it.
func (d *Disk) take(i int, into []byte) error {
	if d.ahead.done != nil {
		<-d.ahead.done // also where it is another: there is one buffer
		if d.ahead.tensor == i && d.ahead.err == nil {
			copy(into, d.ahead.buf)
			return nil
		}
	}
	_, err := d.file.ReadAt(into, d.offsets[i])
	return err
}

// start reads tensor i in the background, unless that has been done.
func (d *Disk) start(i int) {
	p := &d.ahead
	if p.done != nil && p.tensor == i && p.err == nil {
		return
	}
	n := d.types[i].Bytes()
	if cap(p.buf) < n {
		p.buf = make([]byte, n)
	}
	file, off, done := d.file, d.offsets[i], make(chan struct{})
	p.tensor, p.buf, p.done, p.err = i, p.buf[:n], done, nil
	go func() {
		defer close(done)
		_, p.err = file.ReadAt(p.buf, off) // nobody else looks at p before done is closed
	}()
}

// Bytes returns the size of the file.
func (d *Disk) Bytes() int { return int(d.bytes) }

// Close closes the file and removes it.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == nil {
		return nil
	}
	if d.ahead.done != nil {
		<-d.ahead.done
	}
	err := d.file.Close()
	if d.path != "" {
		err = errors.Join(err, os.Remove(d.path))
	}
	d.file, d.ahead = nil, prefetch{}
	if err != nil {
		return fmt.Errorf("offload: %w", err)
	}
	return nil
}
