// Package store is the keys and values by which the agents of an elastic job agree: read together, changed by
// compare-and-swap, some of them for as long as somebody renews a lease. Memory is one for a single agent and
// for tests; package etcd is the one of many hosts.
package store

import (
	"context"
	"time"
)

// Entry is a key with its value. Revision is that of the store when it was last written, Created when it was
// made.
type Entry struct {
	Key               string
	Value             []byte
	Revision, Created int64
}

// Condition is what has to hold for a change: the key was last written at a revision; 0 is a key that is not
// there.
type Condition struct {
	Key      string
	Revision int64
}

// Change puts a value, which goes with a lease where there is one, or deletes a key.
type Change struct {
	Key    string
	Value  []byte
	Lease  Lease
	Delete bool
}

// Store keeps the keys of a job. Its methods may be called concurrently.
type Store interface {
	// List returns all entries below a prefix, by key, as they were at one moment.
	List(ctx context.Context, prefix string) ([]Entry, error)
	// Commit makes all changes if all conditions hold, and none if not.
	Commit(ctx context.Context, conditions []Condition, changes []Change) (bool, error)
	// Watch tells that something below a prefix has changed, at the latest when it has; it may tell for nothing.
	// The channel is closed with ctx.
	Watch(ctx context.Context, prefix string) <-chan struct{}
	// Grant makes a lease that ends after ttl unless it is renewed.
	Grant(ctx context.Context, ttl time.Duration) (Lease, error)
	Close() error
}

// Lease is what keys go with.
type Lease interface {
	// Renew lets the lease begin anew. The keys are there for its ttl after the call was made, at least.
	Renew(ctx context.Context) error
	// Revoke ends it, with its keys.
	Revoke(ctx context.Context) error
}
