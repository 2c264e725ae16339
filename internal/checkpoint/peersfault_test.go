package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/comm/process"
)

// peer is a process of a job on a loop-back transport.
type peer struct {
	*process.Process
	dead func() bool
}

func (p peer) Name(q int) string { return fmt.Sprintf("process %d", q) }

// Exchange says nothing more once the process is dead: nobody would tell it that it is.
func (p peer) Exchange(data []byte) ([][]byte, error) {
	if p.dead() {
		return nil, errDead
	}
	return p.Process.Exchange(0, data)
}

// jobSave has n processes save steps one after the other, each on its own view of the disk, until one fails;
// told is called by the first after each step that is certainly there.
func jobSave(t *testing.T, dir string, net *commtest.Loopback, n, steps int, view func(rank int) files,
	told func(step int64)) []error {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for rank := range n {
		own := view(rank)
		d, mortal := own.(*dying)
		p := peer{process.Join(net.Transport(rank)), func() bool { return mortal && d.dies.Load() }}
		all.Go(func() {
			defer func() {
				if !p.dead() {
					p.Leave(errs[rank])
				}
			}()
			k, err := NewKeeper(Config{Dir: dir, Keep: 1, Writers: 1, Peers: p, files: own})
			if err != nil {
				errs[rank] = err
				return
			}
			for step := int64(1); step <= int64(steps) && err == nil; step++ {
				if err = k.Save(t.Context(), apart(t, step, rank, n)); err == nil {
					err = k.Wait(t.Context())
				}
				if err == nil && rank == 0 && told != nil {
					told(step)
				}
			}
			errs[rank] = errors.Join(err, k.Close())
		})
	}
	all.Wait()
	return errs
}

// dying is the disk as a process sees it that is killed before its n-th change: nothing that it does after
// that reaches the disk, and the others lose it.
type dying struct {
	broken
	kill sync.Once
	dies atomic.Bool
	gone func()
}

func (d *dying) dead() bool {
	if d.step() == nil {
		return false
	}
	d.kill.Do(func() {
		d.dies.Store(true)
		d.gone()
	})
	return true
}

func (d *dying) Mkdir(path string) error {
	if d.dead() {
		return errDead
	}
	return d.disk.Mkdir(path)
}

func (d *dying) Rename(from, to string) error {
	if d.dead() {
		return errDead
	}
	return d.disk.Rename(from, to)
}

func (d *dying) RemoveAll(path string) error {
	if d.dead() {
		return errDead
	}
	return d.disk.RemoveAll(path)
}

func (d *dying) SyncDir(path string) error {
	if d.dead() {
		return errDead
	}
	return d.disk.SyncDir(path)
}

func (d *dying) Create(path string) (file, error) {
	if d.dead() {
		return nil, errDead
	}
	f, err := d.disk.Create(path)
	return dyingFile{f, d}, err
}

type dyingFile struct {
	file
	d *dying
}

func (f dyingFile) Write(b []byte) (int, error) {
	if f.d.dead() {
		return 0, errDead
	}
	return f.file.Write(b)
}

func (f dyingFile) Sync() error {
	if f.d.dead() {
		return errDead
	}
	return f.file.Sync()
}

// TestPeerKilled kills each process of 2 and 4 before every change that it makes to the disk: what is there
// is whole and no older than what all were told, the others do not hang, and one process continues from it.
func TestPeerKilled(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		for victim := range n {
			if testing.Short() && victim > 1 {
				continue // the others do what process 1 does
			}
			for at := 0; ; at++ {
				dir, net := t.TempDir(), commtest.NewLoopback(n, 0)
				d := &dying{broken: broken{left: at, err: errDead}, gone: func() { net.Lose(victim) }}
				promised, died := int64(0), false
				errs := jobSave(t, dir, net, n, 2, func(rank int) files {
					if rank == victim {
						return d
					}
					return disk{}
				}, func(step int64) { promised = step })
				died = d.left < 0
				if died && slices.Contains(errs, nil) {
					t.Errorf("process %d of %d before change %d: got %v, want that all fail", victim, n, at, errs)
				}
				if step := checkWhole(t, dir); step < promised {
					t.Errorf(
						"process %d of %d before change %d: got step %d, want at least %d",
						victim,
						n,
						at,
						step,
						promised,
					)
				}
				if err := errors.Join(jobSave(t, dir, commtest.NewLoopback(1, 0), 1, 3, onDisk, nil)...); died &&
					err != nil &&
					checkWhole(t, dir) == 0 {
					t.Errorf("process %d of %d before change %d: afterwards: %v", victim, n, at, err)
				}
				if !died {
					if at < 4 {
						t.Errorf("process %d of %d makes only %d changes", victim, n, at)
					}
					break
				}
			}
		}
	}
}

// TestPeerBrokenDisk makes every change to the disk of one process the first that fails: all processes say
// so, the checkpoint before stays whole, and the same processes can try again where there is no error.
func TestPeerBrokenDisk(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		for victim := range 2 {
			for at := 0; ; at++ {
				dir := t.TempDir()
				d := &broken{left: at, err: syscall.EROFS}
				errs := jobSave(t, dir, commtest.NewLoopback(n, 0), n, 2, func(rank int) files {
					if rank == victim {
						return d
					}
					return disk{}
				}, nil)
				failed := d.left < 0
				// What is superseded is removed by the first alone, after the checkpoint is in place: the others may
				// then have ended well.
				if failed && errs[victim] == nil {
					t.Errorf("process %d of %d, change %d: it says nothing", victim, n, at)
				}
				checkWhole(t, dir)
				if !failed {
					if err := errors.Join(errs...); err != nil {
						t.Errorf("without a fault: %v", err)
					}
					break
				}
			}
		}
	}
}

// TestPeerPowerCut cuts the power of the file system that 2 and 4 processes share after every change that any
// of them made: there is a whole checkpoint, and none older than the last that all were told of.
func TestPeerPowerCut(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		dir := t.TempDir()
		d := &journal{}
		var ends []int
		errs := jobSave(t, dir, commtest.NewLoopback(n, 0), n, 2, func(int) files { return d }, func(int64) {
			d.mu.Lock()
			defer d.mu.Unlock()
			ends = append(ends, len(d.log))
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		root := newDir()
		for i, c := range d.log {
			c.path, c.to = relative(dir, c.path), relative(dir, c.to)
			root.apply(c)
			waited, _ := slices.BinarySearch(ends, i+2)
			for m, mode := range cutModes {
				after := t.TempDir()
				mode.write(t, root, after)
				if step := checkWhole(t, after); step < int64(waited) {
					t.Errorf("%d processes, after %v, mode %d: got step %d, want at least %d", n, c, m, step, waited)
				}
			}
		}
	}
}
