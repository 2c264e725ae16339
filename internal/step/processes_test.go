package step

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/inproc"
)

// TestProcesses: devices that are assigned to two processes, each with a plan and a world of its own, train
// to the same bits as those of one, every process has all numbers, and takes memory for its own devices
// alone.
func TestProcesses(t *testing.T) {
	for _, x := range samples {
		n := x.ranks * x.dp
		if n == 1 {
			continue
		}
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			alone, err := inproc.New(n)
			if err != nil {
				t.Fatal(err)
			}
			want, err := trainOn(alone, x.step(t), x.micros)
			if err != nil {
				t.Fatal(err)
			}
			for name, owner := range dealt(n) {
				for process, got := range trainOnProcesses(t, x, owner) {
					for d, taken := range got.taken {
						if owner[d] == process && taken != want.taken[d] || owner[d] != process && taken != 0 {
							t.Errorf("%s: process %d took %d bytes for device %d of process %d", name, process, taken, d, owner[d])
						}
					}
					got.taken = want.taken
					if !reflect.DeepEqual(got, want) {
						t.Errorf("%s: process %d: losses %v, norms %v, want %v and %v, and the same state", name, process,
							got.losses, got.norms, want.losses, want.norms)
					}
				}
			}
		})
	}
}

// dealt returns ways to give n devices to two processes.
func dealt(n int) map[string][]int {
	halves, turns := make([]int, n), make([]int, n)
	for i := range n {
		halves[i], turns[n-1-i] = 2*i/n, i%2
	}
	return map[string][]int{"halves": halves, "turns": turns}
}

// trainOnProcesses trains a sample on processes that know nothing of each other but their worlds.
func trainOnProcesses(t *testing.T, x sample, owner []int) []*trained {
	t.Helper()
	worlds, err := inproc.Processes(owner)
	if err != nil {
		t.Fatal(err)
	}
	out, errs := make([]*trained, len(worlds)), make([]error, len(worlds))
	var all sync.WaitGroup
	for i, w := range worlds {
		s := x.step(t)
		all.Go(func() { out[i], errs[i] = trainOn(comm.World(w), s, x.micros) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return out
}
