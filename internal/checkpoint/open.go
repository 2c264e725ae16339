package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Verify says when checksums are compared.
type Verify uint8

// VerifyAtOpen reads every file once before anything else, so that a good checkpoint is known to be good.
// VerifyAtRead leaves that to the first read from each file: opening costs little, and a bad file is an error
// then.
const (
	VerifyAtOpen Verify = iota
	VerifyAtRead
)

// OpenConfig configures how a checkpoint is opened. The zero value is the safe choice.
type OpenConfig struct {
	Verify Verify
}

// Open opens the newest good checkpoint of a directory, or the directory itself if it is one. Bad ones are
// skipped, and listed by the Reader; if none is good, the error is a *NoneError. One that the system does not
// let us read ends the search with an *UnreadableError.
func Open(dir string, c OpenConfig) (*Reader, error) {
	if _, err := os.Stat(filepath.Join(dir, manifestName)); err == nil {
		return openOne(dir, c.Verify)
	}
	return open(dir, "", c, func(name) bool { return true })
}

// OpenStep opens the checkpoint of one step of a directory.
func OpenStep(dir string, step int64, c OpenConfig) (*Reader, error) {
	return open(dir, fmt.Sprintf("step %d", step), c, func(n name) bool { return n.step == step })
}

// open tries checkpoints, newest first. A Keeper may remove old ones meanwhile, but only when a newer one
// exists, so if none was good and the list has changed, it looks again.
func open(dir, what string, c OpenConfig, wanted func(name) bool) (*Reader, error) {
	names, err := listWanted(dir, wanted)
	for {
		if err != nil {
			return nil, err
		}
		r, skipped, err := openFirst(dir, names, c.Verify)
		if err != nil {
			return nil, err
		}
		if r != nil {
			r.skipped = skipped
			return r, nil
		}
		before := names
		if names, err = listWanted(dir, wanted); err == nil && slices.Equal(names, before) {
			return nil, &NoneError{Dir: dir, What: what, Skipped: skipped}
		}
	}
}

// listWanted returns the candidates, newest first; none if there is no directory.
func listWanted(dir string, wanted func(name) bool) ([]name, error) {
	names, _, err := list(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return slices.DeleteFunc(names, func(n name) bool { return !wanted(n) }), nil
}

// openFirst opens the first good one of a list, nil if there is none.
func openFirst(dir string, names []name, v Verify) (*Reader, []*CorruptError, error) {
	var skipped []*CorruptError
	for _, n := range names {
		path := filepath.Join(dir, n.String())
		r, err := openOne(path, v)
		if err == nil && r.manifest.Step != n.step {
			r.Close()
			err = &CorruptError{path, manifestName, fmt.Errorf("step: got %d, want %d", r.manifest.Step, n.step)}
		}
		if err == nil {
			return r, skipped, nil
		}
		bad, ok := errors.AsType[*CorruptError](err)
		if !ok {
			return nil, nil, err
		}
		skipped = append(skipped, bad)
	}
	return nil, skipped, nil
}

// OpenBest opens the good checkpoint of a directory with the lowest value of a scalar.
func OpenBest(dir, scalar string, c OpenConfig) (*Reader, error) {
	names, err := listWanted(dir, func(name) bool { return true })
	if err != nil {
		return nil, err
	}
	scores := map[name]float64{}
	for _, n := range names {
		m, err := openManifest(filepath.Join(dir, n.String()))
		if _, cannot := errors.AsType[*UnreadableError](err); cannot {
			return nil, err
		}
		if err != nil {
			continue
		}
		if x, err := m.meta().Float(scalar); err == nil && !math.IsNaN(x) {
			scores[n] = x
		}
	}
	names = slices.DeleteFunc(names, func(n name) bool { _, ok := scores[n]; return !ok })
	slices.SortStableFunc(names, func(a, b name) int { return cmp.Compare(scores[a], scores[b]) })
	r, skipped, err := openFirst(dir, names, c.Verify)
	if err == nil && r == nil {
		err = &NoneError{Dir: dir, What: "checkpoint with " + scalar, Skipped: skipped}
	}
	if err != nil {
		return nil, err
	}
	r.skipped = skipped
	return r, nil
}

// maxManifest bounds the memory that a manifest's size may make us allocate.
const maxManifest = 1 << 30

// openManifest reads the manifest of a checkpoint.
func openManifest(path string) (*manifest, error) {
	text, err := readManifest(filepath.Join(path, manifestName))
	if err != nil {
		return nil, badFile(path, manifestName, err)
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, &CorruptError{path, manifestName, err}
	}
	return m, nil
}

// openOne opens the checkpoint in a directory. Every error is a *CorruptError or an *UnreadableError.
func openOne(path string, v Verify) (*Reader, error) {
	m, err := openManifest(path)
	if err != nil {
		return nil, err
	}
	r := newReader(path, m)
	if err := r.openFiles(); err != nil {
		r.Close()
		return nil, err
	}
	if v == VerifyAtOpen {
		if err := r.verifyAll(); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

func readManifest(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("missing: %w", fs.ErrNotExist)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxManifest:
		return nil, fmt.Errorf("got %v of %d bytes, want a file of at most %d", info.Mode().Type(), info.Size(),
			maxManifest)
	}
	return os.ReadFile(path)
}
