package checkpoint

import (
	"strings"
	"testing"
)

// TestEpoch: a keeper of an earlier start of a job, which still lives and has the lock, writes nothing once a
// later one has the directory; nor does one that comes late.
func TestEpoch(t *testing.T) {
	dir := t.TempDir()
	keeper := func(epoch int) (*Keeper, error) { return NewKeeper(Config{Dir: dir, Epoch: epoch}) }
	save := func(k *Keeper, step int64) error {
		if err := k.Save(t.Context(), sample(step)); err != nil {
			return err
		}
		return k.Wait(t.Context())
	}
	old, err := keeper(3)
	if err != nil {
		t.Fatal(err)
	}
	if err := save(old, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := keeper(3); err == nil || !strings.Contains(err.Error(), "another keeper") {
		t.Errorf("the same epoch twice: got %v", err)
	}
	next, err := keeper(4)
	if err != nil {
		t.Fatal(err)
	}
	if err := save(old, 2); err == nil || !strings.Contains(err.Error(), "epoch 4 of the job has begun") {
		t.Errorf("an old epoch: got %v", err)
	}
	if err := save(next, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := keeper(2); err == nil || !strings.Contains(err.Error(), "writes nothing any more") {
		t.Errorf("an epoch that comes late: got %v", err)
	}
	r, err := Open(dir, OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	checkSample(t, r)
	if r.Meta().Step != 3 {
		t.Errorf("got step %d, want 3", r.Meta().Step)
	}
}
