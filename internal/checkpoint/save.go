package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/galley-ml/galley/internal/safetensors"
)

// Save copies a state and writes it in the background. When it returns, the caller may change the state's
// memory.
//
// It waits for the previous save, as long as ctx allows, and if that failed returns its error and starts
// nothing: call it again to retry. An invalid state is refused immediately. So is a step before an existing
// good one: to go back to an earlier step, Rewind; to start anew, choose another directory. An existing step
// is replaced.
func (k *Keeper) Save(ctx context.Context, s State) error {
	p, err := newPlan(s)
	if err != nil {
		return fmt.Errorf("checkpoint: step %d: %w", s.Step, err)
	}
	if err := k.acquire(ctx); err != nil {
		return err
	}
	if _, err := k.confer(word{}, k.begin(p)); err != nil {
		k.release()
		return err
	}
	go func() {
		defer k.release()
		if saved, err := k.write(p); err != nil {
			k.err = &SaveError{Step: p.manifest.Step, Dir: k.c.Dir, Err: err, Saved: saved}
			k.c.Log.Error("checkpoint: not saved", "step", p.manifest.Step, "error", err)
		}
	}()
	return nil
}

// begin is the part of a save before the caller continues.
func (k *Keeper) begin(p *plan) error {
	if k.closed {
		return fmt.Errorf("checkpoint: step %d: the keeper of %s is closed", p.manifest.Step, k.c.Dir)
	}
	if err := k.takeError(); err != nil {
		return err
	}
	for i := range k.kept {
		n := k.kept[i].name
		if n.step <= p.manifest.Step {
			continue
		}
		h, err := k.examine(i)
		if err != nil {
			return err
		}
		if h == good {
			return fmt.Errorf("checkpoint: step %d: %s already holds %v: resume from that, rewind to an earlier "+
				"step, or choose another directory",
				p.manifest.Step, k.c.Dir, n)
		}
	}
	var err error
	if k.buffers, err = p.snapshot(k.buffers); err != nil {
		return fmt.Errorf("checkpoint: step %d: %w", p.manifest.Step, err)
	}
	if k.c.Finite {
		if err := p.finite(); err != nil {
			return err
		}
	}
	k.step.Store(p.manifest.Step)
	k.done.Store(0)
	k.total.Store(p.bytes)
	return nil
}

// write puts a checkpoint in place and removes those it supersedes; saved is whether it exists.
func (k *Keeper) write(p *plan) (saved bool, err error) {
	if k.c.Peers != nil {
		return k.writeTogether(p)
	}
	n := k.freeName(p.manifest.Step)
	temp := filepath.Join(k.c.Dir, n.temporary())
	if err = k.c.files.Mkdir(temp); err == nil {
		err = k.fillFiles(temp, p)
	}
	if err == nil {
		saved, err = k.conclude(temp, n, p)
	}
	if err != nil && !saved {
		return false, errors.Join(err, k.c.files.RemoveAll(temp))
	}
	return saved, err
}

// conclude writes the manifest of a directory in which everything else is complete, renames it and removes
// the checkpoints it supersedes. The manifest comes last: if it exists, everything does.
func (k *Keeper) conclude(temp string, n name, p *plan) (saved bool, err error) {
	if err := k.fillManifest(temp, p); err != nil {
		return false, err
	}
	if err := k.outlived(); err != nil {
		return false, err
	}
	if err := k.c.files.Rename(temp, filepath.Join(k.c.Dir, n.String())); err != nil {
		return false, err
	}
	k.insert(kept{name: n, health: good, score: p.manifest.score(k.c.KeepBest), scored: true})
	if err := k.c.files.SyncDir(k.c.Dir); err != nil {
		return false, err
	}
	k.c.Log.Info("checkpoint: saved", "step", n.step, "path", filepath.Join(k.c.Dir, n.String()), "bytes",
		p.bytes)
	return true, k.prune(n)
}

// fillManifest writes the manifest; all of the directory is on disk when it returns.
func (k *Keeper) fillManifest(dir string, p *plan) error {
	text, err := p.manifest.encode()
	if err != nil {
		return err
	}
	write := func(f file) error { _, err := f.Write(text); return err }
	if err := k.create(filepath.Join(dir, manifestName), write); err != nil {
		return err
	}
	return k.c.files.SyncDir(dir)
}

// fillFiles writes the data files, several in parallel, and records their sizes and checksums in the
// manifest. After an error the others stop.
func (k *Keeper) fillFiles(dir string, p *plan) error {
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		failed atomic.Bool
		errs   = make([]error, len(p.files))
	)
	for range min(k.c.Writers, len(p.files)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(p.files) && !failed.Load(); i = int(next.Add(1)) - 1 {
				if !p.here(i) {
					continue
				}
				if errs[i] = k.fillFile(dir, p, i, &failed); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	return firstError(errs)
}

var errStopped = errors.New("stopped: another file failed")

// firstError returns the first of errs that is a cause and not a consequence.
func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, errStopped) {
			return err
		}
	}
	return nil
}

func (k *Keeper) fillFile(dir string, p *plan, i int, failed *atomic.Bool) error {
	entry := &p.manifest.Files[i]
	meta := map[string]string{
		"format": formatName, "step": strconv.FormatInt(p.manifest.Step, 10), "device": strconv.Itoa(entry.Device),
	}
	return k.create(filepath.Join(dir, entry.Name), func(f file) error {
		m := &meter{w: f}
		m.tell = func(n int) error {
			k.done.Add(int64(n))
			if failed.Load() {
				return errStopped
			}
			return nil
		}
		if err := safetensors.Encode(m, p.named(i), meta); err != nil {
			return err
		}
		entry.Bytes, entry.Checksum = m.bytes, checksum(m.crc)
		return nil
	})
}

// create writes a file and syncs it to disk.
func (k *Keeper) create(path string, write func(file) error) error {
	f, err := k.c.files.Create(path)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
