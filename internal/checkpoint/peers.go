package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Peers are the processes that write checkpoints together, into a directory that all of them share. Each
// writes the files of its own devices; the first creates the directory, writes the manifest and renames. If a
// process dies on the way, the previous checkpoint is unchanged.
type Peers interface {
	// Rank returns this process's number: the first is 0.
	Rank() int
	// Name returns the name of a process for errors.
	Name(process int) string
	// Exchange gathers the data of all processes, by process.
	Exchange(data []byte) ([][]byte, error)
}

// word is a message between the processes.
type word struct {
	Err   string      `json:"err,omitempty"`
	Text  string      `json:"text,omitempty"`
	Files []fileEntry `json:"files,omitempty"`
	Steps []int64     `json:"steps,omitempty"`
}

// first reports whether this is the process that does what only one must do.
func (k *Keeper) first() bool { return k.c.Peers == nil || k.c.Peers.Rank() == 0 }

// confer exchanges messages and errors with the others, and returns their messages. If one has failed, all
// fail.
func (k *Keeper) confer(mine word, err error) ([]word, error) {
	if k.c.Peers == nil {
		return []word{mine}, err
	}
	if err != nil {
		mine.Err = err.Error()
	}
	text, failed := json.Marshal(mine)
	var all [][]byte
	if failed == nil {
		all, failed = k.c.Peers.Exchange(text)
	}
	if err != nil || failed != nil {
		return nil, errors.Join(err, failed)
	}
	words := make([]word, len(all))
	for q, text := range all {
		if err := json.Unmarshal(text, &words[q]); err != nil {
			return nil, fmt.Errorf("%s: %w", k.c.Peers.Name(q), err)
		}
		if words[q].Err != "" {
			return nil, fmt.Errorf("%s: %s", k.c.Peers.Name(q), words[q].Err)
		}
	}
	return words, nil
}

// open prepares the directory: the first process locks it, and the others check that they see the same one.
func (k *Keeper) open() error {
	var err error
	if k.first() {
		err = k.hold()
	}
	if k.c.Peers == nil {
		return err
	}
	probe := ""
	if k.first() && err == nil {
		probe, err = k.newProbe()
		defer os.Remove(probe)
	}
	words, err := k.confer(word{Text: filepath.Base(probe)}, err)
	if err == nil && !k.first() {
		if _, e := os.Stat(filepath.Join(k.c.Dir, words[0].Text)); e != nil {
			err = fmt.Errorf("%s is not the directory that %s has: want one on a file system that all processes share",
				k.c.Dir, k.c.Peers.Name(0))
		}
	}
	_, err = k.confer(word{}, err)
	return err
}

// newProbe makes a file with a random name.
func (k *Keeper) newProbe() (string, error) {
	f, err := os.CreateTemp(k.c.Dir, ".probe-*")
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// writeTogether writes a checkpoint of which each process has some files.
func (k *Keeper) writeTogether(p *plan) (saved bool, err error) {
	n := k.freeName(p.manifest.Step)
	temp := filepath.Join(k.c.Dir, n.temporary())
	if k.first() {
		err = k.c.files.Mkdir(temp)
	}
	words, err := k.confer(word{Text: filepath.Base(temp)}, err)
	if err == nil {
		temp = filepath.Join(k.c.Dir, words[0].Text)
		err = k.fillFiles(temp, p)
	}
	words, err = k.confer(word{Files: p.manifest.Files}, err)
	if err == nil && k.first() {
		err = p.takeFiles(words)
		if err == nil {
			saved, err = k.conclude(temp, n, p)
		}
	}
	if !saved && k.first() && err != nil {
		err = errors.Join(err, k.c.files.RemoveAll(temp))
	}
	outcome := word{}
	if saved {
		outcome.Text = savedWord
	}
	words, failed := k.confer(outcome, err)
	if failed != nil {
		return saved, failed
	}
	return words[0].Text == savedWord, nil
}

// savedWord means that the checkpoint is in place.
const savedWord = "saved"

// takeFiles records the sizes and checksums of the files that other processes wrote.
func (p *plan) takeFiles(words []word) error {
	for q, w := range words {
		if len(w.Files) != len(p.manifest.Files) {
			return fmt.Errorf("process %d has %d files: want %d", q, len(w.Files), len(p.manifest.Files))
		}
		for i, f := range w.Files {
			if f.Checksum != "" {
				p.manifest.Files[i] = f
			}
		}
	}
	for _, f := range p.manifest.Files {
		if f.Checksum == "" {
			return fmt.Errorf("nobody has written %s", f.Name)
		}
	}
	return nil
}
