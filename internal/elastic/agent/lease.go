//go:build linux || darwin

package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/galley-ml/galley/internal/elastic/store"
	"github.com/galley-ml/galley/internal/elastic/worker"
)

// lease is this host's lease, renewed in the background.
type lease struct {
	l      store.Lease
	ttl    time.Duration
	beat   func(ctx context.Context, n int) error // called with every renewal
	sent   atomic.Int64                           // when the last successful renewal was sent, by worker.Clock
	ended  atomic.Bool
	cancel context.CancelFunc
	done   chan struct{}
}

// newLease acquires a lease and renews it until it is closed.
func newLease(ctx context.Context, s store.Store, ttl time.Duration,
	beat func(ctx context.Context, n int) error) (*lease, error) {
	try, stop := context.WithTimeout(ctx, ttl)
	defer stop()
	now := worker.Clock()
	l, err := s.Grant(try, ttl)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	x := &lease{l: l, ttl: ttl, beat: beat, cancel: cancel, done: make(chan struct{})}
	x.sent.Store(now)
	go x.renew(ctx)
	return x, nil
}

// renew renews the lease five times as often as necessary.
func (x *lease) renew(ctx context.Context) {
	defer close(x.done)
	timer := time.NewTicker(x.ttl / 5)
	defer timer.Stop()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		try, stop := context.WithTimeout(ctx, x.ttl/2)
		now := worker.Clock()
		err := x.l.Renew(try)
		if err == nil {
			err = x.beat(try, n)
		}
		stop()
		switch {
		case err == nil:
			n++
			x.sent.Store(now)
		case errors.Is(err, store.ErrExpired):
			x.ended.Store(true)
			return
		}
	}
}

// until returns when workers must have ended, by worker.Clock: a fifth of the lease before it may end.
func (x *lease) until() int64 { return x.sent.Load() + int64(x.ttl-x.ttl/5) }

// holds reports whether the lease is certain to be valid, and stays so while workers are ended.
func (x *lease) holds() bool { return !x.ended.Load() && worker.Clock() < x.until() }

// expired reports whether the lease is known to have ended.
func (x *lease) expired() bool { return x.ended.Load() }

// close revokes the lease.
func (x *lease) close(ctx context.Context) {
	x.cancel()
	<-x.done
	_ = x.l.Revoke(ctx) // it ends anyway
}
