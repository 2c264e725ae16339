//go:build linux || darwin

package agent

import (
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
)

// beating returns an agent of a job whose other hosts are b and c, in a store whose leases never end.
func beating(t *testing.T, lease time.Duration) *Agent {
	s := store.NewMemory()
	fixed := time.Now()
	s.Now = func() time.Time { return fixed }
	a := &Agent{Config: Config{Job: "j", Host: "a", Store: s, Lease: lease, Stderr: io.Discard},
		prefix: Prefix("j"), beats: beats{prefix: beatsPrefix("j")}}
	a.events.a = a
	changes := []store.Change{{Key: a.prefix + epoch.LeaderKey(), Value: []byte("b1")}}
	for _, host := range []string{"a", "b", "c"} {
		text, err := json.Marshal(epoch.Member{Host: host, ID: host + "1"})
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, store.Change{Key: a.prefix + epoch.MemberKey(host), Value: text})
	}
	if ok, err := s.Commit(t.Context(), nil, changes); err != nil || !ok {
		t.Fatal(ok, err)
	}
	return a
}

// TestSilent: a host that does not beat for a lease is taken off, whatever the store holds of its lease, and
// the leadership with it; it knows with its next beat. One that beats stays.
func TestSilent(t *testing.T) {
	const lease = 300 * time.Millisecond
	a := beating(t, lease)
	ctx, n := t.Context(), map[string]int{}
	other := map[string]*beats{"b": {prefix: a.beats.prefix}, "c": {prefix: a.beats.prefix}}
	turn := func(host string) error {
		b := &a.beats
		if host != "a" {
			b = other[host]
		}
		err := b.turn(ctx, a.Store, host, host+"1", n[host])
		n[host]++
		return err
	}
	for i := range 40 {
		hosts := []string{"a", "c"}
		if i < 5 {
			hosts = append(hosts, "b")
		}
		for _, host := range hosts {
			if err := turn(host); err != nil {
				t.Fatal(host, err)
			}
		}
		if err := a.look(ctx); err != nil {
			t.Fatal(err)
		}
		a.dropSilent(ctx)
		if _, ok := a.view.Members["b"]; !ok && i < 10 {
			t.Fatalf("taken off after %d turns", i)
		}
		time.Sleep(lease / 20)
	}
	if len(a.view.Members) != 2 || a.view.Leader != "" || a.view.Members["b"].ID != "" {
		t.Errorf("got members %v, and %q leads", a.view.Members, a.view.Leader)
	}
	if err := turn("b"); !errors.Is(err, store.ErrExpired) {
		t.Errorf("the one that was taken off beats: got %v", err)
	}
	if err := other["b"].turn(ctx, a.Store, "b", "b2", 0); err != nil {
		t.Errorf("another start of it: got %v", err)
	}
}

// TestSilentAgain: a host that beats between the look of another and what that one does is not taken off.
func TestSilentAgain(t *testing.T) {
	a := beating(t, time.Hour)
	b := &beats{prefix: a.beats.prefix}
	for i, x := range []*beats{b, &a.beats, b} { // a sees the first of b's beats, and not the second
		host, id := "b", "b1"
		if x == &a.beats {
			host, id = "a", "a1"
		}
		if err := x.turn(t.Context(), a.Store, host, id, i/2); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.drop(t.Context(), a.view.Members["b"], a.beats.of("b")) {
		t.Error("it was taken off")
	}
}
