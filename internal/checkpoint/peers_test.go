package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// circle is processes that exchange until one of them dies: in its exchange of that number, counted by all.
type circle struct {
	n    int
	dies int // process 1 dies before it gives in this exchange; less than 0 never

	mu    sync.Mutex
	done  *sync.Cond
	round int
	parts [][]byte
	gave  int
	last  [][]byte
	dead  bool
}

func newCircle(n, dies int) *circle {
	c := &circle{n: n, dies: dies, parts: make([][]byte, n)}
	c.done = sync.NewCond(&c.mu)
	return c
}

var errDead = errors.New("a process is gone")

func (c *circle) exchange(rank int, data []byte) ([][]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	round := c.round
	if rank == 1 && round == c.dies {
		c.dead = true
		c.done.Broadcast()
	}
	if c.dead {
		return nil, errDead
	}
	c.parts[rank] = data
	if c.gave++; c.gave == c.n {
		c.last, c.parts, c.gave = c.parts, make([][]byte, c.n), 0
		c.round++
		c.done.Broadcast()
		return c.last, nil
	}
	for c.round == round && !c.dead {
		c.done.Wait()
	}
	if c.round == round {
		return nil, errDead
	}
	return c.last, nil
}

// member is one process of a circle.
type member struct {
	*circle
	rank int
}

func (m member) Rank() int                              { return m.rank }
func (m member) Name(process int) string                { return fmt.Sprintf("process %d", process) }
func (m member) Exchange(data []byte) ([][]byte, error) { return m.exchange(m.rank, data) }

// apart returns the state after a step as one of n processes has it: four rows, one a device, two of them
// equal.
func apart(t *testing.T, step int64, rank, n int) State {
	t.Helper()
	s := State{Meta: Meta{Step: step}}
	full := Tensor{Name: "w"}
	full.Type.DType, full.Type.Shape = array.F32, array.Shape{4, 3}
	for device := range 4 {
		a := array.New(array.F32, 1, 3)
		for i := range 3 {
			a.Set(i, float64(int(step)*100+device*10+i))
		}
		p := Part{Device: device, Box: mesh.Box{Start: []int{device, 0}, Size: []int{1, 3}}, Data: a}
		if device*n/4 != rank {
			p.Data, p.Away = array.Array{}, true
		}
		full.Parts = append(full.Parts, p)
	}
	s.Tensors = append(s.Tensors, full)
	return s
}

// saveTogether saves two steps by n processes, and is what each came to.
func saveTogether(t *testing.T, dir string, c *circle, open func(rank int) files) []error {
	t.Helper()
	errs := make([]error, c.n)
	var all sync.WaitGroup
	for rank := range c.n {
		all.Go(func() {
			k, err := NewKeeper(Config{Dir: dir, Peers: member{c, rank}, files: open(rank)})
			if err != nil {
				errs[rank] = err
				return
			}
			for _, step := range []int64{1, 2} {
				if err = k.Save(t.Context(), apart(t, step, rank, c.n)); err == nil {
					err = k.Wait(t.Context())
				}
				if err != nil {
					break
				}
			}
			errs[rank] = errors.Join(err, k.Close())
		})
	}
	all.Wait()
	return errs
}

func onDisk(int) files { return disk{} }

// checkWhole: what is in a directory can be read, and is the state of a step.
func checkWhole(t *testing.T, dir string) (step int64) {
	t.Helper()
	r, err := Open(dir, OpenConfig{})
	if none, ok := errors.AsType[*NoneError](err); ok && len(none.Skipped) == 0 {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if len(r.Skipped()) > 0 {
		t.Errorf("torn: %v", r.Skipped())
	}
	step = r.Meta().Step
	got, err := r.ReadWhole("w")
	if err != nil {
		t.Fatal(err)
	}
	for i := range got.Len() {
		if want := float64(int(step)*100 + i/3*10 + i%3); got.At(i) != want {
			t.Errorf("step %d, element %d: got %v, want %v", step, i, got.At(i), want)
		}
	}
	return step
}

// TestPeers: what several processes write is, file by file, what one does.
func TestPeers(t *testing.T) {
	alone := t.TempDir()
	if err := errors.Join(saveTogether(t, alone, newCircle(1, -1), onDisk)...); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{2, 4} {
		dir := t.TempDir()
		if err := errors.Join(saveTogether(t, dir, newCircle(n, -1), onDisk)...); err != nil {
			t.Fatal(err)
		}
		if step := checkWhole(t, dir); step != 2 {
			t.Errorf("%d processes: got step %d", n, step)
		}
		err := filepath.WalkDir(alone, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(alone, path)
			if err != nil {
				return err
			}
			want, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if got, err := os.ReadFile(filepath.Join(dir, rel)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d processes: %s differs: %v", n, rel, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPeerDies: whenever a process dies, the others say so, and what is there is whole.
func TestPeerDies(t *testing.T) {
	last := int64(0)
	for _, n := range []int{2, 4} {
		for dies := range 12 {
			dir := t.TempDir()
			c := newCircle(n, dies)
			errs := saveTogether(t, dir, c, onDisk)
			if c.dead && errs[0] == nil {
				t.Errorf("%d processes, exchange %d: the first process says nothing", n, dies)
			}
			step := checkWhole(t, dir)
			if dies > 0 && step < last {
				t.Errorf("%d processes, exchange %d: got step %d, though %d was there earlier", n, dies, step, last)
			}
			if last = step; dies == 11 {
				last = 0
			}
		}
	}
}

// fullDisk is the disk of a host that is full when the second checkpoint is written.
type fullDisk struct {
	disk
	left atomic.Int64
}

var errFull = errors.New("no space left on device")

func (f *fullDisk) Create(path string) (file, error) {
	if f.left.Add(-1) < 0 {
		return nil, errFull
	}
	return f.disk.Create(path)
}

// TestPeerDiskFull: all processes learn that one could not write, and the checkpoint before stays.
func TestPeerDiskFull(t *testing.T) {
	dir := t.TempDir()
	errs := saveTogether(t, dir, newCircle(2, -1), func(rank int) files {
		if rank == 1 {
			f := &fullDisk{}
			f.left.Store(2) // two devices' files of the first step
			return f
		}
		return disk{}
	})
	for rank, err := range errs {
		if save, ok := errors.AsType[*SaveError](err); !ok || save.Step != 2 || save.Saved {
			t.Errorf("process %d: got %v, want that step 2 was not saved", rank, err)
		}
	}
	if step := checkWhole(t, dir); step != 1 {
		t.Errorf("got step %d, want 1", step)
	}
}

// TestNotShared: a directory that is not the same everywhere is refused at the start.
func TestNotShared(t *testing.T) {
	c := newCircle(2, -1)
	dirs := []string{t.TempDir(), t.TempDir()}
	errs := make([]error, 2)
	var all sync.WaitGroup
	for rank, dir := range dirs {
		all.Go(func() {
			k, err := NewKeeper(Config{Dir: dir, Peers: member{c, rank}})
			if err == nil {
				k.Close()
			}
			errs[rank] = err
		})
	}
	all.Wait()
	for rank, err := range errs {
		if err == nil {
			t.Errorf("process %d: got no error", rank)
		}
	}
}
