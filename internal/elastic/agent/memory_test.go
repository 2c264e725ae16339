//go:build linux || darwin

package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
	"github.com/galley-ml/galley/internal/elastic/worker"
)

// testHost returns an agent's memory.
func testHost(t *testing.T, host string) *memory {
	t.Helper()
	a := &Agent{Config: Config{Job: "j", Host: host, Dir: t.TempDir(), Address: "127.0.0.1",
		Store:  store.NewMemory(),
		Stderr: io.Discard}, prefix: Prefix("j")}
	a.events.a = a
	m, err := newMemory(a)
	if err != nil {
		t.Fatal(err)
	}
	a.memory, m.token = m, "secret"
	if err := m.adopt(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	return m
}

// keepOne has process 0, on host a, keep a tensor that no other host has.
func keepOne(t *testing.T, m *memory) (dir string, whole array.Array) {
	t.Helper()
	whole = array.FromSlice([]float32{1, 2, 3, 4}, 4)
	s := checkpoint.State{Meta: checkpoint.Meta{Step: 5},
		Tensors: []checkpoint.Tensor{checkpoint.Whole("x", whole)}}
	at := checkpoint.Places{Host: []string{"a", "b"}, Process: func(int) int { return 0 }}
	w, err := checkpoint.NewSnapshots(checkpoint.SnapshotConfig{Dir: m.ownDir(3, 0), Places: at}, s)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	name, err := w.Write(s)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(m.ownDir(3, 0), name), whole
}

// TestChangedShare: where the bytes of a snapshot have changed in memory, the copy on another host is taken;
// without one there is no snapshot.
func TestChangedShare(t *testing.T) {
	a, b := testHost(t, "a"), testHost(t, "b")
	places := []epoch.Place{{Host: "a", Address: a.address}, {Host: "b", Address: b.address}}
	dir, whole := keepOne(t, a)
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got %v and %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	step := func() int64 {
		a.refresh()
		b.refresh()
		held, failed := a.gather(t.Context(), &epoch.Plan{Hosts: places})
		if failed != "" {
			t.Fatal(failed)
		}
		_, step := best(held)
		return step
	}
	if got := step(); got != 5 {
		t.Fatalf("got step %d, want 5", got)
	}
	if err := a.copyTo(t.Context(), places[1], dir); err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := step(); got != 5 {
		t.Fatalf("with a copy: got step %d, want 5", got)
	}
	resume, err := a.assemble(t.Context(), &epoch.Plan{Epoch: 4, Hosts: places, Step: 5, From: 3})
	if err != nil {
		t.Fatal(err)
	}
	r, err := checkpoint.Open(resume, checkpoint.OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := r.ReadWhole("x"); err != nil || string(got.Bytes()) != string(whole.Bytes()) {
		t.Errorf("got %v and %v", got, err)
	}
	if err := b.forget(func(int, int64) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if got := step(); got != -1 {
		t.Errorf("without the copy: got step %d, want none", got)
	}
}

// TestSpareKeeps: a host that waits takes copies, and tells of them though no worker of its own has ended.
func TestSpareKeeps(t *testing.T) {
	a, b := testHost(t, "a"), testHost(t, "b")
	dir, _ := keepOne(t, a)
	at := epoch.Place{Host: "b", Address: b.address}
	if held, failed := a.gather(t.Context(), &epoch.Plan{Hosts: []epoch.Place{at}}); failed != "" ||
		len(held) != 0 {
		t.Fatalf("before: got %d shares and %q", len(held), failed)
	}
	if err := a.copyTo(t.Context(), at, dir); err != nil {
		t.Fatal(err)
	}
	held, failed := a.gather(t.Context(), &epoch.Plan{Hosts: []epoch.Place{at}})
	if failed != "" {
		t.Fatal(failed)
	}
	if from, step := best(held); from != 3 || step != 5 {
		t.Errorf("got step %d of epoch %d, want 5 of 3", step, from)
	}
}

// TestHolders: what a member holds that takes no part in an epoch counts, and one that is gone does not
// hinder.
func TestHolders(t *testing.T) {
	a, b := testHost(t, "a"), testHost(t, "b")
	keepOne(t, b)
	b.refresh()
	p := &epoch.Plan{Hosts: []epoch.Place{{Host: "a", Address: a.address}},
		Holders: []epoch.Place{{Host: "gone", Address: "127.0.0.1:1"}, {Host: "b", Address: b.address}}}
	held, failed := a.gather(t.Context(), p)
	if failed != "" {
		t.Fatal(failed)
	}
	if p.From, p.Step = best(held); p.Step != 5 {
		t.Fatalf("got step %d, want 5", p.Step)
	}
	p.Epoch = p.From + 1
	if dir, err := a.assemble(t.Context(), p); err != nil || dir == "" {
		t.Errorf("got %q and %v", dir, err)
	}
}

// TestHolds: a host that leaves stays until an epoch without it has a snapshot, or for half a minute.
func TestHolds(t *testing.T) {
	mine := &epoch.Plan{Hosts: []epoch.Place{{Host: "a", ID: "1"}}}
	other := &epoch.Plan{Hosts: []epoch.Place{{Host: "b", ID: "2"}}}
	for _, test := range []struct {
		plan    *epoch.Plan
		safe    bool
		members int
		ran     time.Duration
		want    bool
	}{
		{mine, true, 2, 0, true}, {other, false, 2, 0, true}, {other, true, 2, 0, false},
		{mine, true, 1, 0, false}, {other, false, 2, 2 * holdFor, false},
	} {
		v := &epoch.View{Plan: test.plan, Safe: test.safe, Members: map[string]epoch.Member{}}
		for i := range test.members {
			v.Members[fmt.Sprint(i)] = epoch.Member{}
		}
		a := &Agent{Config: Config{Host: "a"}, member: epoch.Member{ID: "1"}, view: v,
			ran: time.Now().Add(-test.ran)}
		if got := a.holds(); got != test.want {
			t.Errorf("%+v: got %v", test, got)
		}
	}
}

// TestUncopied: copies that another host does not take are told, once.
func TestUncopied(t *testing.T) {
	a, b := testHost(t, "a"), testHost(t, "b")
	var told lines
	a.a.Stderr = &told
	dir, _ := keepOne(t, a)
	if err := os.RemoveAll(b.root); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.root, nil, 0o600); err != nil { // nothing can be made below a file
		t.Fatal(err)
	}
	over, end := context.WithCancel(t.Context())
	w := &group{over: over, end: end, plan: &epoch.Plan{Epoch: 3, Hosts: []epoch.Place{{Host: "a"},
		{Host: "b", Address: b.address}}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.a.copyOn(w, 0, worker.Report{Step: 5, Sealed: filepath.Base(dir), Sole: true})
	}()
	for told.count("are not copied: host b does not take that of step 5") == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(3 * copyAgain)
	end()
	<-done
	if n := told.count("are not copied"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// lines is what an agent tells, for several goroutines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// TestSecret: an agent answers those who know its job's secret, and gives files below its directory alone.
func TestSecret(t *testing.T) {
	a := testHost(t, "a")
	card := Card{Address: a.address, Token: "other"}
	if _, err := card.Keys(t.Context()); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("another secret: got %v", err)
	}
	err := a.fetch(t.Context(), epoch.Place{Host: "a", Address: a.address}, "../../etc/passwd",
		filepath.Join(t.TempDir(), "x"))
	if err == nil || !strings.Contains(err.Error(), "below") {
		t.Errorf("a path outside: got %v", err)
	}
}
