//go:build linux || darwin

package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
)

// SnapshotConfig describes where a process stores its share of the state.
type SnapshotConfig struct {
	// Dir is this process's own, on a file system in memory that outlives the process.
	Dir string
	Places
}

// Snapshots stores this process's share of a state in memory that outlives it: two of them, in turn. Each is
// a directory, s0 or s1, with files of boxes and, last, a manifest: if it exists, the share is complete. The
// shares of all hosts form a checkpoint (Merge).
type Snapshots struct {
	c     SnapshotConfig
	share share
	slots [2]*slot
	next  int
	form  []*formFile
	// tensors is the manifest's field of tensors, which is the same in every snapshot.
	tensors []byte
}

// slot is one of the two.
type slot struct {
	dir   string
	files [boxKinds]*mapped
}

// formFile is the layout of a file: the same in every snapshot. order lists the pieces from the beginning of
// the file to its end.
type formFile struct {
	entry   fileEntry
	offsets []int64
	order   []int
}

// NewSnapshots allocates snapshots for states of one form. It removes the contents of the directory.
func NewSnapshots(c SnapshotConfig, s State) (*Snapshots, error) {
	w := &Snapshots{c: c}
	var err error
	if w.share, err = newShare(s, c.Places); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	for i := range w.slots {
		if w.slots[i], err = w.newSlot(s, filepath.Join(c.Dir, "s"+strconv.Itoa(i))); err != nil {
			return nil, fmt.Errorf("snapshot: %w", errors.Join(err, w.Close()))
		}
	}
	if err := w.describe(s); err != nil {
		return nil, fmt.Errorf("snapshot: %w", errors.Join(err, w.Close()))
	}
	return w, nil
}

// SnapshotBytes returns the memory that the processes of a host together use for one snapshot of a state, and
// the part of it that no other host holds.
func SnapshotBytes(s State, at Places) (all, sole int64, err error) {
	for process, host := range at.Host {
		if host != at.Host[at.Me] {
			continue
		}
		one := at
		one.Me = process
		sh, err := newShare(s, one)
		if err != nil {
			return 0, 0, err
		}
		sole += pieceBytes(s, sh[soleBoxes])
		all += pieceBytes(s, sh[soleBoxes]) + pieceBytes(s, sh[sharedBoxes])
	}
	return all, sole, nil
}

// newSlot creates the files of a slot, with all their memory.
func (w *Snapshots) newSlot(s State, dir string) (*slot, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	l := &slot{dir: dir}
	for kind, pieces := range w.share {
		if len(pieces) == 0 {
			continue
		}
		number := w.c.Me*boxKinds + kind
		m, form, err := newMapped(filepath.Join(dir, fileName(number)), number, s, pieces)
		if err != nil {
			l.close()
			return nil, err
		}
		l.files[kind] = m
		w.setForm(kind, form)
	}
	return l, nil
}

func (w *Snapshots) setForm(kind int, f *formFile) {
	if w.form == nil {
		w.form = make([]*formFile, boxKinds)
	}
	w.form[kind] = f
}

// newMapped creates a safetensors file of pieces, and maps it.
func newMapped(path string, number int, s State, pieces []piece) (*mapped, *formFile, error) {
	var named []safetensors.Named
	nameKeys(s.Tensors, pieces)
	for i := range pieces {
		t := s.Tensors[pieces[i].tensor]
		named = append(named, safetensors.Named{Name: pieces[i].key,
			Array: array.New(t.Type.DType, pieces[i].box.Size...)})
	}
	m, err := createMapped(path, func(f *os.File) error {
		return safetensors.Encode(f, named, map[string]string{"format": formatName})
	})
	if err != nil {
		return nil, nil, err
	}
	form := &formFile{entry: fileEntry{Name: fileName(number), Device: number, Bytes: int64(len(m.bytes))}}
	file, err := safetensors.NewFile(path, m.reader(), int64(len(m.bytes)))
	for _, pc := range pieces {
		if err != nil {
			break
		}
		section, e := file.Section(pc.key)
		if err = e; err == nil {
			_, at, _ := section.Outer()
			form.offsets = append(form.offsets, at)
		}
	}
	if err != nil {
		m.close()
		return nil, nil, err
	}
	for i := range pieces {
		form.order = append(form.order, i)
	}
	slices.SortFunc(form.order, func(a, b int) int { return cmp.Compare(form.offsets[a], form.offsets[b]) })
	return m, form, nil
}

// Write copies this process's share of a state over the older of the two snapshots; name is its directory.
// The caller must ensure that the newer one is complete in all processes.
func (w *Snapshots) Write(s State) (name string, err error) {
	l := w.slots[w.next]
	if err := os.Remove(filepath.Join(l.dir, manifestName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	m := manifest{Format: formatName, Version: formatVersion, Step: s.Step, Sample: s.Sample, Seed: s.Seed,
		RNG: s.RNG, Scalars: s.Scalars}
	for kind, pieces := range w.share {
		if len(pieces) == 0 {
			continue
		}
		if err := w.fill(&m, s, kind, l.files[kind]); err != nil {
			return "", fmt.Errorf("snapshot: step %d: %w", s.Step, err)
		}
	}
	text, err := m.encodeWith(w.tensors)
	if err == nil {
		err = seal(l.dir, text)
	}
	if err != nil {
		return "", fmt.Errorf("snapshot: step %d: %w", s.Step, err)
	}
	w.next = 1 - w.next
	return filepath.Base(l.dir), nil
}

// describe records which boxes of which tensors the files hold.
func (w *Snapshots) describe(s State) (err error) {
	m := manifest{}
	for _, t := range s.Tensors {
		m.Tensors = append(m.Tensors, tensorEntry{Name: t.Name, DType: t.Type.DType, Shape: t.Type.Shape})
	}
	for kind, pieces := range w.share {
		for _, pc := range pieces {
			t := &m.Tensors[pc.tensor]
			t.Parts = append(t.Parts, partEntry{Start: pc.box.Start, Size: pc.box.Size,
				File: w.form[kind].entry.Name, Key: pc.key})
		}
	}
	w.tensors, err = m.tensorsText()
	return err
}

// fill copies the pieces of a file, and records it in the manifest.
func (w *Snapshots) fill(m *manifest, s State, kind int, file *mapped) error {
	form := w.form[kind]
	sum := summed{bytes: file.bytes}
	for _, i := range form.order {
		sum.to(form.offsets[i])
		if err := w.share[kind][i].read(s, &sum); err != nil {
			return err
		}
	}
	sum.to(int64(len(file.bytes)))
	e := form.entry
	e.Checksum = checksum(sum.crc)
	m.Files = append(m.Files, e)
	return nil
}

// Sole reports whether this process stores boxes that no other host holds.
func (w *Snapshots) Sole() bool { return len(w.share[soleBoxes]) > 0 }

// Close unmaps the files, which stay.
func (w *Snapshots) Close() error {
	for _, l := range w.slots {
		if l != nil {
			l.close()
		}
	}
	return nil
}

func (l *slot) close() {
	for _, m := range l.files {
		if m != nil {
			m.close()
		}
	}
}
