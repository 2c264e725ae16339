package safetensors

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// bufferBytes is for the many small tensors of a file; large ones go past the buffer.
const bufferBytes = 1 << 20

// pending is a file that is whole and on disk, under a temporary name.
type pending struct {
	temp, path string
}

// stage writes a file for path under a temporary name in the same directory, where a rename is atomic. It
// leaves nothing behind on an error.
func stage(path string, write func(io.Writer) error) (pending, error) {
	p, f, err := create(path)
	if err != nil {
		return pending{}, err
	}
	if err := fill(f, write); err != nil {
		os.Remove(p.temp)
		return pending{}, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// create makes a file for path under a temporary name.
func create(path string) (pending, *os.File, error) {
	dir, base := filepath.Split(path)
	p := pending{temp: filepath.Join(dir, fmt.Sprintf(".%s.%016x.tmp", base, rand.Uint64())), path: path}
	// Not os.CreateTemp, whose files nobody else may read.
	f, err := os.OpenFile(p.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	return p, f, err
}

// fill writes f through to the disk and closes it.
func fill(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, bufferBytes)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// commit gives files their names, in order. What it could not name, it removes.
func commit(files []pending) error {
	for i, p := range files {
		if err := os.Rename(p.temp, p.path); err != nil {
			discard(files[i:])
			return err
		}
	}
	if len(files) == 0 {
		return nil
	}
	return syncDir(filepath.Dir(files[0].path))
}

func discard(files []pending) {
	for _, p := range files {
		os.Remove(p.temp)
	}
}

// syncDir makes renames in dir last through a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
