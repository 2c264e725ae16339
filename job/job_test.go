package job_test

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/job"
)

// TestOnFailure: the first process tells why another has left though it is busy itself, and once; and whoever
// only heard of the failure passes it on as the other's.
func TestOnFailure(t *testing.T) {
	t.Setenv("GALLEY_PATIENCE", "2s") // processes that fail wait for each other for 1.25 s
	net := commtest.NewLoopback(3, 0)
	var told atomic.Int32
	var text atomic.Value
	busy := make(chan struct{})
	tell := func(err error) {
		text.Store(err.Error())
		told.Add(1)
		close(busy)
	}
	fail := []func(j *job.Job) error{
		func(*job.Job) error { <-busy; return nil },
		func(j *job.Job) error { _, err := j.Max(0); return err },
		func(*job.Job) error { return errors.New("out of paper") },
	}
	errs := make([]error, 3)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			j, err := job.Over(net.Transport(i), "a test", "goroutines")
			if err != nil {
				t.Errorf("process %d: %v", i, err)
				return
			}
			j.OnFailure(tell)
			errs[i] = j.End(fail[i](j), tell)
		})
	}
	all.Wait()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := "process 2 (" + host + "): out of paper"
	if got := text.Load(); got != want || told.Load() != 1 {
		t.Errorf("told %d times: got %v, want %s", told.Load(), got, want)
	}
	if errs[0] == nil || errs[0].Error() != want || errs[1] == nil || errs[1].Error() != want {
		t.Errorf("got %v and %v, want %s", errs[0], errs[1], want)
	}
}
