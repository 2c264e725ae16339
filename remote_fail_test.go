package galley_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// bufferCounter is a backend that knows which buffers are there, takes none that is gone, and fails when it
// is told to.
type bufferCounter struct {
	galley.Backend
	live map[*countedBuffer]bool
	// fails is how many runs of a program are left before one fails.
	fails map[string]int
}

func newBufferCounter() *bufferCounter {
	return &bufferCounter{backendtest.Interpreter(1), map[*countedBuffer]bool{}, map[string]int{}}
}

func (c *bufferCounter) counted(b backend.Buffer) backend.Buffer {
	x := &countedBuffer{b, c}
	c.live[x] = true
	return x
}

func (c *bufferCounter) Put(a array.Array) (backend.Buffer, error) {
	b, err := c.Backend.Put(a)
	if err != nil {
		return nil, err
	}
	return c.counted(b), nil
}

func (c *bufferCounter) Compile(f *ir.Func, o backend.Options) (backend.Executable, error) {
	e, err := c.Backend.Compile(f, o)
	return &countingExecutable{e, c, f, o.Donate}, err
}

func (c *bufferCounter) bytes() (n int) {
	for b := range c.live {
		n += b.Type().Bytes()
	}
	return n
}

type countedBuffer struct {
	backend.Buffer
	c *bufferCounter
}

func (b *countedBuffer) Free() {
	delete(b.c.live, b)
	b.Buffer.Free()
}

type countingExecutable struct {
	backend.Executable
	c      *bufferCounter
	f      *ir.Func
	donate []int
}

func (e *countingExecutable) Run(args []backend.Buffer) ([]backend.Buffer, error) {
	if n, ok := e.c.fails[e.f.Name()]; ok {
		if e.c.fails[e.f.Name()]--; n == 0 {
			delete(e.c.fails, e.f.Name())
			return nil, errors.New("out of memory")
		}
	}
	in := make([]backend.Buffer, len(args))
	for i, a := range args {
		b, want := a.(*countedBuffer), e.f.Params()[i]
		if !e.c.live[b] || !b.Type().Equal(want.Type()) {
			return nil, fmt.Errorf("%s: argument %d is %v, there: %v: want %v", e.f.Name(), i, b.Type(), e.c.live[b],
				want.Type())
		}
		in[i] = b.Buffer
	}
	for _, i := range e.donate {
		delete(e.c.live, args[i].(*countedBuffer))
	}
	out, err := e.Executable.Run(in)
	for i, b := range out {
		out[i] = e.c.counted(b)
	}
	return out, err
}

// TestNoState: a run that fails while the state is laid out, when parts of it are gone, and Close leave no
// buffer, and whatever is asked of the trainer then says why it cannot be had.
func TestNoState(t *testing.T) {
	for name, end := range map[string]func(b *bufferCounter, tr *galley.Trainer) error{
		"failure": func(b *bufferCounter, tr *galley.Trainer) error {
			b.fails["concat"] = 2
			if _, err := tr.Step(groupIDs(0)); err == nil || !strings.Contains(err.Error(), "out of memory") {
				return fmt.Errorf("the step does not say what failed: %w", err)
			}
			return nil
		},
		"close": func(_ *bufferCounter, tr *galley.Trainer) error {
			trainFor(t, tr, 1)
			return tr.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			b := newBufferCounter()
			tr, m := groupRun{backend: b, half: true}.trainer(t)
			f := tr.NewForward(func(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{m.Loss(in[0], in[0])} })
			defer f.Close()
			if err := errors.Join(tr.Save(t.Context(), c, 0), c.Wait(t.Context())); err != nil {
				t.Fatal(err)
			}
			if err := end(b, tr); err != nil {
				t.Fatal(err)
			}
			if len(b.live) > 0 {
				t.Errorf("%d buffers of %d bytes are left", len(b.live), b.bytes())
			}
			for name, run := range map[string]func() error{
				"step":    func() error { _, err := tr.Step(groupIDs(0)); return err },
				"forward": func() error { _, err := f.Run(t.Context(), groupIDs(0)); return err },
				"sync":    func() error { return tr.Sync(galley.CPU(galley.Config{Threads: 1}).NewSession()) },
				"save":    func() error { return tr.Save(t.Context(), c, 0) },
				"resume":  func() error { _, err := tr.Resume(dir); return err },
			} {
				if err := run(); err == nil || !strings.Contains(err.Error(), "it has no state") ||
					strings.Contains(err.Error(), "bug") {
					t.Errorf("%s: got %v, want why it cannot be had", name, err)
				}
			}
		})
	}
}
