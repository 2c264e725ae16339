package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Partial is a process's share of a checkpoint.
type Partial struct{ manifest *manifest }

// ParsePartial reads the manifest of a share.
func ParsePartial(text []byte) (*Partial, error) {
	m, err := parseShare(text)
	if err != nil {
		return nil, err
	}
	return &Partial{m}, nil
}

// OpenPartial reads the manifest of a share in a directory, and verifies its files against their checksums.
func OpenPartial(dir string) (*Partial, error) {
	text, err := readManifest(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, badFile(dir, manifestName, err)
	}
	m, err := parseShare(text)
	if err != nil {
		return nil, &CorruptError{dir, manifestName, err}
	}
	for _, f := range m.Files {
		if err := verifyFile(dir, f); err != nil {
			return nil, badFile(dir, f.Name, err)
		}
	}
	return &Partial{m}, nil
}

// verifyFile reads a file for its checksum.
func verifyFile(dir string, e fileEntry) error {
	f, err := os.Open(filepath.Join(dir, e.Name))
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := checksumOf(f)
	if err == nil && got != e.Checksum {
		err = fmt.Errorf("checksum: got %s, want %s", got, e.Checksum)
	}
	return err
}

// Step returns the number of completed steps.
func (p *Partial) Step() int64 { return p.manifest.Step }

// Text returns the manifest.
func (p *Partial) Text() ([]byte, error) { return p.manifest.encode() }

// SoleFile returns the name of the file whose boxes no other host holds; empty if there is none.
func (p *Partial) SoleFile() string {
	for _, f := range p.manifest.Files {
		if f.Device%boxKinds == soleBoxes {
			return f.Name
		}
	}
	return ""
}

// WithoutShared returns the share without the boxes that other hosts hold: what another host stores a copy
// of.
func (p *Partial) WithoutShared() *Partial {
	m := *p.manifest
	m.Files = slices.DeleteFunc(slices.Clone(m.Files),
		func(f fileEntry) bool { return f.Device%boxKinds != soleBoxes })
	m.Tensors = slices.Clone(m.Tensors)
	for i := range m.Tensors {
		m.Tensors[i].Parts = slices.DeleteFunc(slices.Clone(m.Tensors[i].Parts), func(e partEntry) bool {
			return e.File != p.SoleFile()
		})
	}
	return &Partial{&m}
}

// Merge returns the checkpoint that shares of one step form together: of equal boxes the first one is taken.
// It fails if they do not cover every tensor.
func Merge(list []*Partial) (*Merged, error) {
	if len(list) == 0 {
		return nil, errors.New("snapshot: no share of any process")
	}
	first := list[0].manifest
	m := *first
	m.Files, m.Tensors = nil, make([]tensorEntry, len(first.Tensors))
	out := &Merged{m: &m, From: map[string]int{}}
	for i, t := range first.Tensors {
		t.Parts = nil
		m.Tensors[i] = t
	}
	for k, p := range list {
		if err := out.add(k, p.manifest); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(m.Files, func(a, b fileEntry) int { return a.Device - b.Device })
	for i := range m.Tensors {
		slices.SortFunc(m.Tensors[i].Parts, func(a, b partEntry) int { return slices.Compare(a.Start, b.Start) })
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("snapshot: step %d: %w", m.Step, err)
	}
	return out, nil
}

// Merged is a checkpoint whose files are in the directories of several shares.
type Merged struct {
	m *manifest
	// From is the share in whose directory each file is, by its index in the list.
	From map[string]int
}

// add adds the boxes of a share that are still missing.
func (g *Merged) add(k int, p *manifest) error {
	if p.Step != g.m.Step || len(p.Tensors) != len(g.m.Tensors) {
		return fmt.Errorf("snapshot: shares of different states: steps %d and %d, %d and %d tensors", g.m.Step,
			p.Step,
			len(g.m.Tensors), len(p.Tensors))
	}
	used := map[string]bool{}
	for i, t := range p.Tensors {
		to := &g.m.Tensors[i]
		if t.Name != to.Name {
			return fmt.Errorf("snapshot: shares of different states: tensors %q and %q", to.Name, t.Name)
		}
		for _, e := range t.Parts {
			same := func(o partEntry) bool { return slices.Equal(o.Start, e.Start) && slices.Equal(o.Size, e.Size) }
			if !slices.ContainsFunc(to.Parts, same) {
				to.Parts = append(to.Parts, e)
				used[e.File] = true
			}
		}
	}
	for _, f := range p.Files {
		if _, there := g.From[f.Name]; used[f.Name] && !there {
			g.m.Files, g.From[f.Name] = append(g.m.Files, f), k
		}
	}
	return nil
}

// Write creates the checkpoint in a directory of checkpoints: its files are linked from the directories of
// the shares.
func (g *Merged) Write(dir string, shares []string) (path string, err error) {
	path = filepath.Join(dir, name{step: g.m.Step}.String())
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", err
	}
	for file, k := range g.From {
		to := filepath.Join(path, file)
		if err := os.Link(filepath.Join(shares[k], file), to); err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	text, err := g.m.encode()
	if err != nil {
		return "", err
	}
	return path, seal(path, text)
}

// Boxes returns the number of boxes of a share.
func (p *Partial) Boxes() (n int) {
	for _, t := range p.manifest.Tensors {
		n += len(t.Parts)
	}
	return n
}

// seal writes the manifest of a snapshot, atomically.
func seal(dir string, text []byte) error {
	temp := filepath.Join(dir, manifestName+".tmp")
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, manifestName))
}
