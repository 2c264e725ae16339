// Package store defines the key-value store by which the agents of an elastic job agree: consistent reads,
// compare-and-swap, and keys that expire unless a lease is renewed. Memory is a store for a single agent and
// for tests; package etcd implements one for several hosts.
package store

import (
	"context"
	"time"
)

// Entry is a key with its value. Revision is that of the store when it was last written, Created when it was
// created.
type Entry struct {
	Key               string
	Value             []byte
	Revision, Created int64
}

// Condition requires that a key was last written at a revision; 0 means that it does not exist.
type Condition struct {
	Key      string
	Revision int64
}

// Change puts a value, bound to a lease if there is one, or deletes a key.
type Change struct {
	Key    string
	Value  []byte
	Lease  Lease
	Delete bool
}

// Store holds the keys of a job. Its methods are safe for concurrent use.
type Store interface {
	// List returns all entries below a prefix, by key, from one consistent snapshot.
	List(ctx context.Context, prefix string) ([]Entry, error)
	// Commit makes all changes if all conditions hold, and none if not.
	Commit(ctx context.Context, conditions []Condition, changes []Change) (bool, error)
	// Watch signals changes below a prefix, without delay; it may signal without a change. The channel is closed
	// with ctx.
	Watch(ctx context.Context, prefix string) <-chan struct{}
	// Grant creates a lease that ends after ttl unless it is renewed.
	Grant(ctx context.Context, ttl time.Duration) (Lease, error)
	Close() error
}

// Lease limits the lifetime of keys.
type Lease interface {
	// Renew restarts the lease. Its keys exist for at least its ttl after the call was made.
	Renew(ctx context.Context) error
	// Revoke ends the lease and removes its keys.
	Revoke(ctx context.Context) error
}
