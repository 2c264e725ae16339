package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// epochName is the file with the number of the last start of a job that has written to a directory.
const epochName = ".epoch"

// lastEpoch returns that number; 0 if there is none.
func (k *Keeper) lastEpoch() int {
	text, err := os.ReadFile(filepath.Join(k.c.Dir, epochName))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(string(text)) // an unreadable one counts as none
	return n
}

// outlived returns an error if a later start of the job owns the directory.
func (k *Keeper) outlived() error {
	if n := k.lastEpoch(); k.c.Epoch > 0 && n > k.c.Epoch {
		return fmt.Errorf("%s: epoch %d of the job has begun, and this is of epoch %d: it writes nothing any more",
			k.c.Dir,
			n, k.c.Epoch)
	}
	return nil
}

// outlives reports whether an earlier start owned the directory, whose lock does not count any more.
func (k *Keeper) outlives() bool {
	n := k.lastEpoch()
	return k.c.Epoch > 0 && n > 0 && n < k.c.Epoch
}

// raise claims the directory for this start of the job.
func (k *Keeper) raise() error {
	if k.c.Epoch == 0 {
		return nil
	}
	temp := filepath.Join(k.c.Dir, epochName+".tmp")
	if err := os.WriteFile(temp, []byte(strconv.Itoa(k.c.Epoch)), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(k.c.Dir, epochName))
}
