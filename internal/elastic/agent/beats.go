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

// beats is how hosts see that another is silent though its lease lasts: an etcd whose leader is lost renews
// all leases. Every host writes a key whenever it renews its lease, and counts as leased only if that was
// written, too, after what it wrote before. Who sees no change for as long as a lease lasts takes the host
// off, on the condition that there was none: of the two writes one fails, so the host that is taken off has
// ended its workers, and knows.
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

// beatsPrefix is beside the job's keys: agents watch these, and would look at all of them at every beat.
func beatsPrefix(job string) string { return "/galley-beats/" + job + "/" }

// gone is what is written for a start of a host that was taken off.
func gone(id string) string { return "gone " + id }

// turn writes this host's beat, the n-th of a start of it, and sees those of all. It returns ErrExpired if
// the host was taken off.
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
	if v := string(own.Value); v == gone(id) || n > 0 && !strings.HasPrefix(v, id+" ") {
		return store.ErrExpired
	}
	ok, err := s.Commit(ctx, []store.Condition{{Key: b.prefix + host, Revision: own.Revision}},
		[]store.Change{{Key: b.prefix + host, Value: fmt.Appendf(nil, "%s %d", id, n)}})
	if err == nil && !ok {
		err = store.ErrExpired
	}
	return err
}

// of returns what was seen of a host.
func (b *beats) of(host string) beat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[host]
}

// dropSilent takes hosts off that have not beaten for as long as a lease lasts.
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
			a.events.tell("host %s has been silent for %v, though the store has kept its lease: it is taken off", host,
				a.Lease)
		}
	}
	a.met = known
}

// drop takes a host off if it has not beaten since.
func (a *Agent) drop(ctx context.Context, m epoch.Member, last beat) bool {
	key := epoch.MemberKey(m.Host)
	conditions := []store.Condition{{Key: a.prefix + key, Revision: a.view.Revision(key)},
		{Key: a.beats.prefix + m.Host, Revision: last.revision}}
	changes := []store.Change{{Key: a.prefix + key, Delete: true},
		{Key: a.beats.prefix + m.Host, Value: []byte(gone(m.ID))}}
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
