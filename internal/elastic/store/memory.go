package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a store in the memory of this process.
type Memory struct {
	// Now is the clock by which leases expire.
	Now func() time.Time

	mu       sync.Mutex
	revision int64
	entries  map[string]held
	watchers map[chan struct{}]bool
}

// held is an entry and its lease.
type held struct {
	Entry
	lease *memoryLease
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{Now: time.Now, entries: map[string]held{}, watchers: map[chan struct{}]bool{}}
}

// ErrExpired reports that a lease has expired.
var ErrExpired = errors.New("the lease has ended")

// expire removes the entries of expired leases.
func (m *Memory) expire() {
	now := m.Now()
	for key, h := range m.entries {
		if h.lease != nil && (h.lease.over || !now.Before(h.lease.until)) {
			h.lease.over = true
			delete(m.entries, key)
			m.changed()
		}
	}
}

// changed notifies all watchers.
func (m *Memory) changed() {
	m.revision++
	for w := range m.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// List returns all entries below a prefix.
func (m *Memory) List(_ context.Context, prefix string) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	var list []Entry
	for key, h := range m.entries {
		if strings.HasPrefix(key, prefix) {
			list = append(list, h.Entry)
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// Commit makes all changes if all conditions hold.
func (m *Memory) Commit(_ context.Context, conditions []Condition, changes []Change) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	for _, c := range conditions {
		if m.entries[c.Key].Revision != c.Revision {
			return false, nil
		}
	}
	for _, c := range changes {
		if l, ok := c.Lease.(*memoryLease); ok && (l.over || !m.Now().Before(l.until)) {
			return false, ErrExpired
		}
	}
	m.changed()
	for _, c := range changes {
		if c.Delete {
			delete(m.entries, c.Key)
			continue
		}
		h := held{Entry: Entry{Key: c.Key, Value: slices.Clone(c.Value), Revision: m.revision, Created: m.revision}}
		if before, ok := m.entries[c.Key]; ok {
			h.Created = before.Created
		}
		h.lease, _ = c.Lease.(*memoryLease)
		m.entries[c.Key] = h
	}
	return true, nil
}

// Watch reports changes.
func (m *Memory) Watch(ctx context.Context, _ string) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := make(chan struct{}, 1)
	m.watchers[w] = true
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, w)
		close(w)
	})
	return w
}

// Close does nothing.
func (m *Memory) Close() error { return nil }

// memoryLease is a lease of a Memory.
type memoryLease struct {
	m     *Memory
	ttl   time.Duration
	until time.Time
	over  bool
}

// Grant creates a lease.
func (m *Memory) Grant(_ context.Context, ttl time.Duration) (Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memoryLease{m: m, ttl: ttl, until: m.Now().Add(ttl)}, nil
}

// Renew restarts the lease's time to live.
func (l *memoryLease) Renew(context.Context) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.over || !l.m.Now().Before(l.until) {
		l.over = true
		return ErrExpired
	}
	l.until = l.m.Now().Add(l.ttl)
	return nil
}

// Revoke ends the lease.
func (l *memoryLease) Revoke(context.Context) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.over = true
	l.m.expire()
	return nil
}
