package checkpoint

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
)

// freeName is the name under which a step is saved.
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

// examine reads a checkpoint that an earlier process left, once, to know whether it counts.
func (k *Keeper) examine(i int) health {
	e := &k.kept[i]
	if e.health == unknown {
		e.health = good
		r, err := openOne(filepath.Join(k.c.Dir, e.name.String()), VerifyAtOpen)
		if err != nil {
			e.health = bad
			k.c.Log.Warn("checkpoint: bad", "error", err)
			return bad
		}
		r.Close()
	}
	return e.health
}

// prune removes the checkpoint that the new one replaces, and whatever is older than the last good ones to be kept. A bad
// one counts for nothing, and goes only when enough good ones are newer: what ails it may pass.
func (k *Keeper) prune(saved name) error {
	found := 0
	return k.remove(func(i int) bool {
		n := k.kept[i].name
		switch {
		case n.step == saved.step && n.attempt < saved.attempt:
			return true
		case k.c.Keep > 0 && found >= k.c.Keep:
			return true
		case k.examine(i) == good:
			found++
		}
		return false
	})
}

// Rewind removes the checkpoints of all steps after one, good or not, so that a run can go on from there.
func (k *Keeper) Rewind(ctx context.Context, step int64) error {
	if err := k.acquire(ctx); err != nil {
		return err
	}
	defer k.release()
	if err := k.told(); err != nil {
		return err
	}
	return k.remove(func(i int) bool { return k.kept[i].name.step > step })
}

// remove removes the checkpoints that unwanted says, asked newest first. Each loses its name first: one that is removed
// by half is a temporary, not a torn checkpoint.
func (k *Keeper) remove(unwanted func(i int) bool) error {
	var rest []kept
	var errs []error
	for i, e := range k.kept {
		if !unwanted(i) {
			rest = append(rest, e)
			continue
		}
		temp := filepath.Join(k.c.Dir, e.name.temporary())
		if err := k.c.files.Rename(filepath.Join(k.c.Dir, e.name.String()), temp); err != nil {
			errs, rest = append(errs, err), append(rest, e)
			continue
		}
		k.c.Log.Info("checkpoint: removing", "step", e.name.step)
		errs = append(errs, k.c.files.RemoveAll(temp))
	}
	k.kept = rest
	return errors.Join(errs...)
}
