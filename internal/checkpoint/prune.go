package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
)

// freeName returns the name under which a step is saved.
func (k *Keeper) freeName(step int64) name {
	n := name{step: step}
	for _, e := range k.kept {
		if e.name.step == step {
			n.attempt = max(n.attempt, e.name.attempt+1)
		}
	}
	return n
}

func (k *Keeper) insert(e kept) {
	i, _ := slices.BinarySearchFunc(k.kept, e, func(a, b kept) int { return b.name.compare(a.name) })
	k.kept = slices.Insert(k.kept, i, e)
}

// examine reads a checkpoint that an earlier process left, once, to determine whether it counts. The error is
// for one that cannot be read now.
func (k *Keeper) examine(i int) (health, error) {
	e := &k.kept[i]
	if e.health != unknown {
		return e.health, nil
	}
	r, err := openOne(filepath.Join(k.c.Dir, e.name.String()), VerifyAtOpen)
	if _, cannot := errors.AsType[*UnreadableError](err); cannot {
		return unknown, err
	}
	if e.health = good; err != nil {
		e.health = bad
		k.c.Log.Warn("checkpoint: bad", "error", err)
		return bad, nil
	}
	return good, r.Close()
}

// score returns the value that KeepBest compares; NaN if there is none.
func (m *manifest) score(name string) float64 {
	x, err := m.meta().Float(name)
	if name == "" || err != nil {
		return math.NaN()
	}
	return x
}

// best returns the index of the checkpoint that KeepBest keeps; -1 if there is none.
func (k *Keeper) best() int {
	at := -1
	if k.c.KeepBest == "" {
		return at
	}
	for i := range k.kept {
		e := &k.kept[i]
		if !e.scored {
			e.score, e.scored = math.NaN(), true
			if m, err := openManifest(filepath.Join(k.c.Dir, e.name.String())); err == nil {
				e.score = m.score(k.c.KeepBest)
			}
		}
		if e.health != bad && !math.IsNaN(e.score) && (at < 0 || e.score <= k.kept[at].score) {
			at = i
		}
	}
	return at
}

// prune removes the checkpoint that the new one replaces, and those older than the last good ones to be kept.
// A bad one does not count, and is removed only when enough good ones are newer, because the reason may be
// temporary. If one cannot be read, nothing is removed.
func (k *Keeper) prune(saved name) error {
	found, best := 0, k.best()
	unwanted := make([]bool, len(k.kept))
	for i, e := range k.kept {
		pinned := i == best || k.c.KeepEvery > 0 && e.name.step%k.c.KeepEvery == 0
		switch full := k.c.Keep > 0 && found >= k.c.Keep; {
		case e.name.step == saved.step && e.name.attempt < saved.attempt:
			unwanted[i] = true
		case full:
			unwanted[i] = !pinned
		default:
			h, err := k.examine(i)
			if err != nil {
				return err
			}
			if h == good {
				found++
			}
		}
	}
	return k.remove(func(i int) bool { return unwanted[i] })
}

// Rewind removes the checkpoints of all steps after one, good or not, so that a run can continue from there.
func (k *Keeper) Rewind(ctx context.Context, step int64) error {
	if err := k.acquire(ctx); err != nil {
		return err
	}
	defer k.release()
	err := k.takeError()
	if err == nil {
		err = k.remove(func(i int) bool { return k.kept[i].name.step > step })
	}
	_, err = k.confer(word{}, err)
	return err
}

// remove removes the checkpoints for which unwanted returns true, newest first. Each is renamed first: one
// that is removed halfway is a temporary, not a torn checkpoint.
func (k *Keeper) remove(unwanted func(i int) bool) error {
	var rest []kept
	var errs []error
	for i, e := range k.kept {
		if !unwanted(i) {
			rest = append(rest, e)
			continue
		}
		temp := filepath.Join(k.c.Dir, e.name.temporary())
		err := k.c.files.Rename(filepath.Join(k.c.Dir, e.name.String()), temp)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has removed it, which is fine
		}
		if err != nil {
			errs, rest = append(errs, err), append(rest, e)
			continue
		}
		k.c.Log.Info("checkpoint: removing", "step", e.name.step)
		if err := k.c.files.RemoveAll(temp); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	k.kept = rest
	return errors.Join(errs...)
}
