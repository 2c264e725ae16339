package models

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// replaceDir lets fill write a new directory, adds the other files of dir, and replaces dir by it.
func replaceDir(dir string, fill func(fresh string) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	made := missing(filepath.Dir(dir))
	fresh, err := freshDir(dir)
	if err == nil {
		err = fillAndSwap(dir, fresh, fill)
		os.RemoveAll(fresh)
	}
	if err != nil {
		for _, d := range made {
			os.Remove(d) // only if it is empty
		}
	}
	return err
}

func fillAndSwap(dir, fresh string, fill func(fresh string) error) error {
	if err := fill(fresh); err != nil {
		return err
	}
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(fresh, dir); err != nil {
			return err
		}
		return syncDir(filepath.Dir(dir))
	}
	if here, e := os.Getwd(); err == nil && filepath.Dir(fresh) != dir && (e != nil || !within(here, dir)) {
		if err := carry(dir, fresh); err != nil {
			return err
		}
		if err := exchange(fresh, dir); err == nil {
			return syncDir(filepath.Dir(dir))
		}
		return moveInto(dir, fresh, true)
	}
	return moveInto(dir, fresh, false)
}

// within reports whether a path is a directory or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// missing returns the directories that creating dir creates, the deepest first.
func missing(dir string) []string {
	var made []string
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			return made
		}
		made = append(made, dir)
		dir = filepath.Dir(dir)
	}
}

// freshDir creates a directory beside dir, or in it if its parent is not writable, and removes those that
// killed processes left behind.
func freshDir(dir string) (string, error) {
	parent, base := filepath.Split(dir)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return "", err
	}
	name := fmt.Sprintf(".%s.saving-%d-%08x", base, os.Getpid(), rand.Uint32())
	removeLeft(parent, base)
	path := filepath.Join(parent, name)
	info, exists := os.Stat(dir)
	if exists == nil && !sameDevice(parent, dir) {
		path = filepath.Join(dir, name) // a mount point
	}
	err := os.Mkdir(path, 0o777)
	if err != nil && exists == nil && info.IsDir() {
		removeLeft(dir, base)
		path = filepath.Join(dir, name)
		err = os.Mkdir(path, 0o777)
	}
	return path, err
}

// removeLeft removes new directories of processes that do not exist any more.
func removeLeft(parent, base string) {
	pattern := regexp.MustCompile(`^\.` + regexp.QuoteMeta(base) + `\.saving-(\d+)-[0-9a-f]{8}$`)
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		if m := pattern.FindStringSubmatch(e.Name()); m != nil {
			if pid, err := strconv.Atoi(m[1]); err == nil && gone(pid) {
				os.RemoveAll(filepath.Join(parent, e.Name()))
			}
		}
	}
}

// ofModel matches the names of a model's files; those of an older model are removed with it.
var ofModel = regexp.MustCompile(`^model(-\d{5,}-of-\d{5,})?\.safetensors(\.index\.json)?$`)

// carry links the other files of a directory into another one unless they exist there; links take neither
// time nor space.
func carry(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if _, err := os.Lstat(dst); err == nil || ofModel.MatchString(e.Name()) ||
			strings.Contains(e.Name(), ".saving-") {
			continue
		}
		if err := carryOne(e, src, dst); err != nil {
			return err
		}
	}
	return nil
}

func carryOne(e fs.DirEntry, src, dst string) error {
	switch {
	case e.IsDir():
		if err := os.Mkdir(dst, 0o777); err != nil {
			return err
		}
		entries, err := os.ReadDir(src)
		for _, e := range entries {
			err = errors.Join(err, carryOne(e, filepath.Join(src, e.Name()), filepath.Join(dst, e.Name())))
		}
		return err
	case e.Type()&fs.ModeSymlink != 0:
		to, err := os.Readlink(src)
		if err != nil {
			return err
		}
		return os.Symlink(to, dst)
	}
	if os.Link(src, dst) == nil {
		return nil
	}
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// moveInto moves files into a directory one by one: weights, their index, and config.json last; then it
// removes the weights of an older model. carried means that the new directory contains the other files of dir
// as well.
func moveInto(dir, fresh string, carried bool) error {
	entries, err := os.ReadDir(fresh)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); !carried || ofModel.MatchString(n) || n == configName || n == tokenizerName {
			names = append(names, n)
		}
	}
	rank := func(name string) int {
		return slices.Index([]string{"model.safetensors.index.json", tokenizerName, configName}, name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, n := range names {
		if err := os.Rename(filepath.Join(fresh, n), filepath.Join(dir, n)); err != nil {
			return err
		}
	}
	old, err := os.ReadDir(dir)
	for _, e := range old {
		if ofModel.MatchString(e.Name()) && !slices.Contains(names, e.Name()) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(err, syncDir(dir))
}

// writeFile writes a small file and syncs it to disk; its permissions follow the umask.
func writeFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes renames in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
