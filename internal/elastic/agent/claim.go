//go:build linux || darwin

package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
)

// newID returns a random name.
func newID() string { return strings.ToLower(rand.Text()[:10]) }

func cores() int { return runtime.GOMAXPROCS(0) }

// jobKey holds the description of a job: one of another kind needs another name.
const jobKey = "job"

// description holds what agents of one job have in common, and the secret by which they authenticate.
type description struct{ Version, Flags, Token string }

// claim makes this host a member of the named job, which it creates if it has no members: keys of an earlier
// one are removed. The job and its first member are written at once, so that one of several hosts that start
// together creates it.
func (a *Agent) claim(ctx context.Context) error {
	for {
		entries, err := a.Store.List(ctx, a.prefix)
		if err != nil {
			return fmt.Errorf("the store: %w", err)
		}
		v, unread := epoch.Read(entries, a.prefix)
		d, revision := description{a.Version, a.Flags, newID() + newID()}, int64(0)
		for _, e := range entries {
			if e.Key == a.prefix+jobKey {
				revision = e.Revision
				if unread == nil && len(v.Members) > 0 {
					return a.join(ctx, v, e.Value)
				}
			}
		}
		text, err := json.Marshal(d)
		if err != nil {
			return err
		}
		changes := []store.Change{{Key: a.prefix + jobKey, Value: text}}
		for _, e := range entries {
			if key := strings.TrimPrefix(e.Key, a.prefix); key != jobKey && a.stale(key, v, unread) {
				changes = append(changes, store.Change{Key: e.Key, Delete: true})
			}
		}
		a.memory.token = d.Token
		ok, err := a.register(ctx, []store.Condition{{Key: a.prefix + jobKey, Revision: revision}}, changes)
		if ok || err != nil {
			return err
		}
	}
}

// stale reports whether a key of an earlier job of the name should be removed: the number of the epoch stays,
// so that no epoch is repeated.
func (a *Agent) stale(key string, v *epoch.View, err error) bool {
	if err != nil || v.Done != nil {
		return true
	}
	return !strings.HasPrefix(key, "epoch")
}

// join makes this host a member of a running job, if the descriptions match.
func (a *Agent) join(ctx context.Context, v *epoch.View, text []byte) error {
	var other description
	if err := json.Unmarshal(text, &other); err != nil {
		return fmt.Errorf("key %s%s: %w", a.prefix, jobKey, err)
	}
	switch {
	case other.Version != a.Version:
		return fmt.Errorf(
			"job %s runs %s, and this is %s: start the same program everywhere, or choose another name with --job",
			a.Job,
			other.Version,
			a.Version,
		)
	case other.Flags != a.Flags:
		return fmt.Errorf(
			"job %s was started with other flags (%s) than this host (%s): give the same everywhere, or "+
				"choose another name with --job",
			a.Job,
			other.Flags,
			a.Flags,
		)
	}
	a.memory.token = other.Token
	for began := time.Now(); ; time.Sleep(tick) {
		ok, err := a.register(ctx, []store.Condition{{Key: a.prefix + epoch.MemberKey(a.Host)}},
			[]store.Change{{Key: a.prefix + epoch.DrainKey(a.Host), Delete: true}}) // it is back
		if ok || err != nil {
			return err
		}
		if time.Since(began) > a.Lease+2*time.Second { // a killed agent is gone by then
			return fmt.Errorf("job %s has a host %s already, at %s: say another name with --host", a.Job, a.Host,
				v.Members[a.Host].Address)
		}
	}
}
