// Package storetest is the conformance suite of stores.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/elastic/store"
)

// Run checks a store that is empty below /test/.
func Run(t *testing.T, s store.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	t.Run("commit", func(t *testing.T) { commit(ctx, t, s) })
	t.Run("race", func(t *testing.T) { race(ctx, t, s) })
	t.Run("watch", func(t *testing.T) { watch(ctx, t, s) })
	t.Run("lease", func(t *testing.T) { lease(ctx, t, s) })
}

func list(ctx context.Context, t *testing.T, s store.Store, prefix string) []store.Entry {
	t.Helper()
	entries, err := s.List(ctx, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func must(t *testing.T, ok bool, err error) {
	t.Helper()
	if err != nil || !ok {
		t.Fatalf("commit: got %v and %v", ok, err)
	}
}

// commit: changes are applied together, or not at all.
func commit(ctx context.Context, t *testing.T, s store.Store) {
	put := func(key, value string) store.Change {
		return store.Change{Key: "/test/" + key,
			Value: []byte(value)}
	}
	ok, err := s.Commit(ctx, []store.Condition{{Key: "/test/a"}}, []store.Change{put("a", "1"), put("b", "2")})
	must(t, ok, err)
	entries := list(ctx, t, s, "/test/")
	if len(entries) != 2 || string(entries[0].Value) != "1" || entries[1].Key != "/test/b" {
		t.Fatalf("got %v", entries)
	}
	if ok, err := s.Commit(ctx, []store.Condition{{Key: "/test/a"}}, []store.Change{put("b", "3")}); ok ||
		err != nil {
		t.Errorf("a key that is there: got %v and %v", ok, err)
	}
	at := store.Condition{Key: "/test/a", Revision: entries[0].Revision}
	ok, err = s.Commit(ctx, []store.Condition{at}, []store.Change{put("a", "4"), {Key: "/test/b", Delete: true}})
	must(t, ok, err)
	if ok, err := s.Commit(ctx, []store.Condition{at}, []store.Change{put("a", "5")}); ok || err != nil {
		t.Errorf("a key that was written since: got %v and %v", ok, err)
	}
	if entries := list(ctx, t, s, "/test/"); len(entries) != 1 || string(entries[0].Value) != "4" {
		t.Errorf("got %v", entries)
	}
	if entries := list(ctx, t, s, "/test/b"); len(entries) != 0 {
		t.Errorf("below: got %v", entries)
	}
}

// race: of several concurrent creations of a key one succeeds.
func race(ctx context.Context, t *testing.T, s store.Store) {
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			ok, err := s.Commit(ctx, []store.Condition{{Key: "/test/race"}},
				[]store.Change{{Key: "/test/race", Value: fmt.Append(nil, i)}})
			if err != nil {
				t.Error(err)
			}
			if ok {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d have won", won.Load())
	}
}

// watch: a change is signalled.
func watch(ctx context.Context, t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(ctx)
	changes := s.Watch(ctx, "/test/")
	time.Sleep(100 * time.Millisecond)
	ok, err := s.Commit(ctx, nil, []store.Change{{Key: "/test/watched", Value: []byte("1")}})
	must(t, ok, err)
	select {
	case <-changes:
	case <-time.After(5 * time.Minute):
		t.Error("nothing was told")
	}
	cancel()
	for {
		select {
		case _, ok := <-changes:
			if !ok {
				return
			}
		case <-time.After(5 * time.Minute):
			t.Fatal("the channel is not closed with its context")
		}
	}
}

// leased is the time to live of the lease, which is renewed for a while.
const leased = 2 * time.Second

// lease: keys exist while it is renewed, and not much longer.
func lease(ctx context.Context, t *testing.T, s store.Store) {
	l, err := s.Grant(ctx, leased)
	if err != nil {
		t.Fatal(err)
	}
	ok, err := s.Commit(ctx, nil, []store.Change{{Key: "/test/leased", Value: []byte("1"), Lease: l}})
	must(t, ok, err)
	renewed := time.Now()
	for range 5 {
		time.Sleep(600 * time.Millisecond)
		before := time.Now()
		err := l.Renew(ctx)
		if before.Sub(renewed) > leased { // this process was suspended for so long
			t.Skip("the machine is too slow to renew a lease")
		}
		if err != nil {
			t.Fatal(err)
		}
		renewed = before
	}
	for len(list(ctx, t, s, "/test/leased")) > 0 { // until the test's context ends
		time.Sleep(50 * time.Millisecond)
	}
	if took := time.Since(renewed); took < leased*3/4 {
		t.Errorf("a lease of %v ended after %v", leased, took)
	}
	if err := l.Renew(ctx); !errors.Is(err, store.ErrExpired) {
		t.Errorf("a lease that has ended: got %v", err)
	}
	second, err := s.Grant(ctx, 60*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ok, err = s.Commit(ctx, nil, []store.Change{{Key: "/test/revoked", Value: []byte("1"), Lease: second}})
	must(t, ok, err)
	if err := second.Revoke(ctx); err != nil || len(list(ctx, t, s, "/test/revoked")) != 0 {
		t.Errorf("a lease that was given up: %v", err)
	}
}
