package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// full is a disk with room for so many bytes.
type full struct {
	disk
	mu   sync.Mutex
	room int
}

type fullFile struct {
	file
	d *full
}

func (d *full) Create(path string) (file, error) {
	f, err := d.disk.Create(path)
	return fullFile{f, d}, err
}

func (f fullFile) Write(p []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	n := min(len(p), f.d.room)
	f.d.room -= n
	if k, err := f.file.Write(p[:n]); err != nil || n == len(p) {
		return k, err
	}
	return n, &os.PathError{Op: "write", Path: "device", Err: syscall.ENOSPC}
}

// TestFullDisk runs out of room at various places of a save.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := &full{room: 1 << 20}
	k := newKeeper(t, Config{Dir: dir, files: d})
	save(t, k, sample(1))
	need := 1<<20 - d.room
	for room := range need {
		if room%97 != 0 && room != need-1 {
			continue
		}
		d.room = room
		if err := k.Save(t.Context(), sample(2)); err != nil {
			t.Fatal(err)
		}
		err := k.Wait(t.Context())
		if e, ok := errors.AsType[*SaveError](err); !ok || e.Step != 2 || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("room for %d bytes: got %v, want a SaveError of a full disk", room, err)
		}
		wantError(t, err, "make room or keep fewer")
		if got := names(t, dir); !slices.Equal(got, []string{"step-00000001"}) {
			t.Fatalf("room for %d bytes: left %v", room, got)
		}
	}
	checkSample(t, openGood(t, dir))

	// The next Save says what happened, once; the one after it works.
	d.room = 10
	if err := k.Save(t.Context(), sample(2)); err != nil {
		t.Fatal(err)
	}
	wantError(t, k.Save(t.Context(), sample(4)), "save of step 2")
	d.room = 1 << 20
	save(t, k, sample(4))
	if r := openGood(t, dir); r.Meta().Step != 4 {
		t.Errorf("got step %d, want 4", r.Meta().Step)
	}
}

// broken is a disk that fails from its n-th change on.
type broken struct {
	disk
	mu   sync.Mutex
	left int
	err  error
}

func (d *broken) step() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left < 0 {
		return d.err
	}
	return nil
}

func (d *broken) Mkdir(path string) error {
	return errors.Join(d.step(), d.disk.Mkdir(path))
}
func (d *broken) Rename(from, to string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.disk.Rename(from, to)
}
func (d *broken) SyncDir(path string) error { return errors.Join(d.step(), d.disk.SyncDir(path)) }
func (d *broken) RemoveAll(path string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.disk.RemoveAll(path)
}
func (d *broken) Create(path string) (file, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	f, err := d.disk.Create(path)
	return brokenFile{f, d}, err
}

type brokenFile struct {
	file
	d *broken
}

func (f brokenFile) Sync() error { return errors.Join(f.d.step(), f.file.Sync()) }

// TestBrokenDisk makes every change to the disk the first that fails: the last good checkpoint stays, and the
// error is told. A new Keeper cleans up.
func TestBrokenDisk(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		dir := t.TempDir()
		d := &broken{left: 1 << 30, err: syscall.EROFS}
		k := newKeeper(t, Config{Dir: dir, Keep: 1, Writers: 1, files: d})
		save(t, k, sample(1))
		d.left = n
		err := errors.Join(k.Save(t.Context(), sample(2)), k.Close())
		checkSample(t, openGood(t, dir))
		if err == nil {
			if n < 10 {
				t.Errorf("a save makes only %d changes", n)
			}
			return
		}
		wantError(t, err, "make the directory writable")
		k = newKeeper(t, Config{Dir: dir, Keep: 1})
		save(t, k, sample(2))
		if got := openGood(t, dir); got.Meta().Step != 2 {
			t.Errorf("change %d: then got step %d", n, got.Meta().Step)
		}
		if got := names(t, dir); len(got) != 1 {
			t.Errorf("change %d: left %v", n, got)
		}
		k.Close()
	}
}

func TestNoDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := NewKeeper(Config{Dir: filepath.Join(path, "run")})
	if !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("got %v", err)
	}
	_, err = Open(filepath.Join(path, "run"), OpenConfig{})
	if !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("got %v", err)
	}
}

// slow is a disk on which nothing is created before it may.
type slow struct {
	disk
	came, may chan struct{}
}

func (d slow) Create(path string) (file, error) {
	select {
	case d.came <- struct{}{}:
	default:
	}
	<-d.may
	return d.disk.Create(path)
}

// TestOneAtATime blocks a save and looks at what the others do.
func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	d := slow{came: make(chan struct{}, 1), may: make(chan struct{})}
	k := newKeeper(t, Config{Dir: dir, files: d})
	if err := k.Save(t.Context(), sample(1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() { errs <- k.Save(ctx, sample(2)) }()
	go func() { errs <- k.Wait(ctx) }()
	if p := k.Progress(); p.Step != 1 || p.Done != 0 || p.Total == 0 {
		t.Errorf("progress: got %+v", p)
	}
	cancel()
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want it canceled", err)
		}
	}
	<-d.came
	if got := names(t, dir); len(got) != 1 || !strings.HasPrefix(got[0], ".step-00000001.tmp-") {
		t.Errorf("got %v, want one temporary", got)
	}
	close(d.may)
	if err := k.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkSample(t, openGood(t, dir))
}
