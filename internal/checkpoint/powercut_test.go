package checkpoint

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// journal is a disk that remembers every change, in order.
type journal struct {
	disk
	mu  sync.Mutex
	log []change
}

type change struct {
	op, path, to string
	data         string
}

func (c change) String() string { return strings.TrimSpace(fmt.Sprintln(c.op, c.path, c.to)) }

func (d *journal) add(c change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, c)
}
func (d *journal) Mkdir(path string) error {
	d.add(change{op: "mkdir", path: path})
	return d.disk.Mkdir(path)
}
func (d *journal) Rename(from, to string) error {
	d.add(change{op: "rename", path: from, to: to})
	return d.disk.Rename(from, to)
}
func (d *journal) RemoveAll(path string) error {
	d.add(change{op: "remove", path: path})
	return d.disk.RemoveAll(path)
}
func (d *journal) SyncDir(path string) error {
	d.add(change{op: "syncdir", path: path})
	return d.disk.SyncDir(path)
}
func (d *journal) Create(path string) (file, error) {
	d.add(change{op: "create", path: path})
	f, err := d.disk.Create(path)
	return journalFile{f, d, path}, err
}

type journalFile struct {
	file
	d    *journal
	path string
}

func (f journalFile) Write(p []byte) (int, error) {
	f.d.add(change{op: "write", path: f.path, data: string(p)})
	return f.file.Write(p)
}

func (f journalFile) Sync() error {
	f.d.add(change{op: "sync", path: f.path})
	return f.file.Sync()
}

// inode is a file, or a directory where names is set, as it is and as of its last sync.
type inode struct {
	bytes, syncedBytes string
	names, syncedNames map[string]*inode
}

func newDir() *inode { return &inode{names: map[string]*inode{}, syncedNames: map[string]*inode{}} }

// apply makes a change. Paths are relative to the root.
func (root *inode) apply(c change) {
	dir, base := root.parent(c.path)
	switch c.op {
	case "mkdir":
		dir.names[base] = newDir()
	case "create":
		dir.names[base] = &inode{}
	case "write":
		dir.names[base].bytes += c.data
	case "sync":
		dir.names[base].syncedBytes = dir.names[base].bytes
	case "rename":
		to, name := root.parent(c.to)
		to.names[name] = dir.names[base]
		delete(dir.names, base)
	case "remove":
		clear(dir.names[base].names)
		delete(dir.names, base)
	case "syncdir":
		if c.path != "." {
			dir = dir.names[base]
		}
		dir.syncedNames = maps.Clone(dir.names)
	}
}

func (root *inode) parent(path string) (*inode, string) {
	dir, base := filepath.Split(path)
	if dir == "" {
		return root, base
	}
	return root.names[filepath.Clean(dir)], base
}

// cutMode says what of the names that were not synced reaches the disk all the same.
type cutMode struct {
	outer, inner func(*inode) map[string]*inode
}

func live(n *inode) map[string]*inode   { return n.names }
func synced(n *inode) map[string]*inode { return n.syncedNames }

var cutModes = []cutMode{{synced, synced}, {live, synced}, {synced, live}, {live, live}}

// write puts what is left after a power cut into a directory.
func (m cutMode) write(t *testing.T, root *inode, dir string) {
	t.Helper()
	for name, d := range m.outer(root) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
		for base, f := range m.inner(d) {
			if err := os.WriteFile(filepath.Join(dir, name, base), []byte(f.syncedBytes), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPowerCut cuts the power after every change of a save. What the disk must still have is only what was
// synced: a file its bytes as of its last sync, a directory its names. Names that were not synced may have
// changed or not; all cases are tried. There must always be a good checkpoint, and never one older than the
// last that was waited for.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := &journal{}
	k := newKeeper(t, Config{Dir: dir, Keep: 1, files: d})
	var ends []int
	for step := range int64(2) {
		save(t, k, sample(step+1))
		ends = append(ends, len(d.log))
	}
	root := newDir()
	for n, c := range d.log {
		c.path, c.to = relative(dir, c.path), relative(dir, c.to)
		root.apply(c)
		waited, _ := slices.BinarySearch(ends, n+2)
		if waited == 0 {
			continue
		}
		for i, mode := range cutModes {
			after := t.TempDir()
			mode.write(t, root, after)
			r, err := Open(after, OpenConfig{})
			if err != nil {
				t.Fatalf("after %v, mode %d: %v", c, i, err)
			}
			checkSample(t, r)
			if r.Meta().Step < int64(waited) {
				t.Errorf("after %v, mode %d: got step %d, want at least %d", c, i, r.Meta().Step, waited)
			}
			r.Close()
		}
	}
}

func relative(dir, path string) string {
	if path == "" {
		return ""
	}
	return must(filepath.Rel(dir, path))
}
