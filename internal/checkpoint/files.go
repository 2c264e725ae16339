package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// files is the interface of a Keeper to the disk; tests replace it by one that fails, fills up or loses data.
type files interface {
	MkdirAll(path string) error
	Mkdir(path string) error
	Create(path string) (file, error)
	Rename(from, to string) error
	RemoveAll(path string) error
	SyncDir(path string) error
}

type file interface {
	io.WriteCloser
	Sync() error
}

// disk is the operating system's files.
type disk struct{}

func (disk) Mkdir(path string) error      { return os.Mkdir(path, 0o777) }
func (disk) Rename(from, to string) error { return os.Rename(from, to) }
func (disk) RemoveAll(path string) error  { return os.RemoveAll(path) }

// MkdirAll makes directories that survive a power failure.
func (d disk) MkdirAll(path string) error {
	made, err := missing(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	for _, m := range made {
		if err := d.SyncDir(filepath.Dir(m)); err != nil {
			return err
		}
	}
	return nil
}

// missing returns a path and its parents that do not exist, the deepest first.
func missing(path string) ([]string, error) {
	var made []string
	for path = filepath.Clean(path); ; path = filepath.Dir(path) {
		_, err := os.Stat(path)
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
			return made, err
		}
		made = append(made, path)
	}
}

// Create makes a file that only its owner can read, because it holds a run's state.
func (disk) Create(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// SyncDir makes creations and renames in a directory survive a power failure. Some network file systems do
// not support it and report that; they order renames themselves.
func (disk) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
