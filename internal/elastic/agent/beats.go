//go:build linux || darwin

package agent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
	"github.com/galley-ml/galley/internal/elastic/worker"
)

// beats detects hosts that are silent although their lease is valid, because an etcd that has lost its leader
// renews all leases. Every host writes a key whenever it renews its lease, and considers itself leased only
// if that write succeeded, too, after its previous one. A host that observes no change for the duration of a
// lease removes the silent one, on the condition that there was none: one of the two writes fails, so the
// removed host has ended its workers, and knows.
type beats struct {
	prefix string

	mu   sync.Mutex
	seen map[string]beat // by host
}

// beat is what a host wrote, at a revision of the store, and when that was first seen, by worker.Clock.
type beat struct {
	value    string
	revision int64
	at       int64
}

// beatsPrefix is beside the job's keys, because agents watch those and would read all of them at every
// heartbeat.
func beatsPrefix(job string) string { return "/galley-beats/" + job + "/" }

// removedValue is the value written for a start of a host that was removed.
func removedValue(id string) string { return "gone " + id }

// turn writes this host's heartbeat, the n-th of its start, and reads those of all hosts. It returns
// ErrExpired if the host was removed.
func (b *beats) turn(ctx context.Context, s store.Store, host, id string, n int) error {
	entries, err := s.List(ctx, b.prefix)
	if err != nil {
		return err
	}
	own := store.Entry{}
	b.mu.Lock()
	if b.seen == nil {
		b.seen = map[string]beat{}
	}
	for _, e := range entries {
		name := strings.TrimPrefix(e.Key, b.prefix)
		if name == host {
			own = e
		}
		if b.seen[name].revision != e.Revision {
			b.seen[name] = beat{string(e.Value), e.Revision, worker.Clock()}
		}
	}
	b.mu.Unlock()
	if v := string(own.Value); v == removedValue(id) || n > 0 && !strings.HasPrefix(v, id+" ") {
		return store.ErrExpired
	}
	ok, err := s.Commit(ctx, []store.Condition{{Key: b.prefix + host, Revision: own.Revision}},
		[]store.Change{{Key: b.prefix + host, Value: fmt.Appendf(nil, "%s %d", id, n)}})
	if err == nil && !ok {
		err = store.ErrExpired
	}
	return err
}

// of returns the last heartbeat of a host.
func (b *beats) of(host string) beat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[host]
}

// dropSilent removes hosts without a heartbeat for the duration of a lease.
func (a *Agent) dropSilent(ctx context.Context) {
	now := worker.Clock()
	known := map[string]int64{}
	for host, m := range a.view.Members {
		known[m.ID] = now
		if first, ok := a.met[m.ID]; ok {
			known[m.ID] = first
		}
		last := a.beats.of(host)
		if host == a.Host || time.Duration(now-max(known[m.ID], last.at)) < a.Lease {
			continue
		}
		if a.drop(ctx, m, last) {
			a.events.record("host %s has been silent for %v, though the store has kept its lease: it is taken off",
				host,
				a.Lease)
		}
	}
	a.met = known
}

// drop removes a host if it has sent no heartbeat since.
func (a *Agent) drop(ctx context.Context, m epoch.Member, last beat) bool {
	key := epoch.MemberKey(m.Host)
	conditions := []store.Condition{{Key: a.prefix + key, Revision: a.view.Revision(key)},
		{Key: a.beats.prefix + m.Host, Revision: last.revision}}
	changes := []store.Change{{Key: a.prefix + key, Delete: true},
		{Key: a.beats.prefix + m.Host, Value: []byte(removedValue(m.ID))}}
	if a.view.Leader == m.ID {
		leader := epoch.LeaderKey()
		conditions = append(conditions, store.Condition{Key: a.prefix + leader, Revision: a.view.Revision(leader)})
		changes = append(changes, store.Change{Key: a.prefix + leader, Delete: true})
	}
	ctx, cancel := context.WithTimeout(ctx, a.Lease/2)
	defer cancel()
	ok, err := a.Store.Commit(ctx, conditions, changes)
	return ok && err == nil && a.look(ctx) == nil
}
