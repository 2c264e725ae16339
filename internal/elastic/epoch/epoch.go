// Package epoch is how the agents of an elastic job agree, as pure functions of what they see.
//
// An epoch is a run of workers: its plan says on which hosts, and from which step. It ends everywhere when it
// ends anywhere. The next one begins when every host of the plan has told that its workers have ended, or has
// lost its lease, before which it has ended them. So workers of two epochs never run at once.
//
// Agents read all keys of the job (View), ask what to do (View.Follow, and View.Lead of the one that leads)
// and do it. Nothing else is remembered, so any of them may be replaced at any time.
package epoch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/elastic/store"
)

// Member is a host that takes part, as it reports itself.
type Member struct {
	Host string
	// ID is this start of the agent: one that is started again is another.
	ID string
	// Address is where the agent answers, Machine what it runs on.
	Address, Machine string
	// Processes is how many workers it starts.
	Processes int
	Cores     int
	Memory    int64
	// Version and Flags are what has to be the same everywhere.
	Version, Flags string
	// Leaving is a host that wants to leave.
	Leaving bool
}

// Place is a host of a plan.
type Place struct {
	Host, ID, Address, Machine string
	// First is the rank of its first worker.
	First, Processes int
}

// Plan is what an epoch runs.
type Plan struct {
	Epoch int
	Hosts []Place
	// Holders are members that take no part and may hold shares of snapshots: such as leave, or wait.
	Holders []Place
	// Step is the step of the snapshot that workers continue from, which workers of epoch From wrote; -1 is
	// none: they continue from the newest checkpoint on disk, or begin.
	Step int64
	From int
	// Strategy is how the step is spread over the workers, in strategy.Parse's words; empty leaves it to them.
	Strategy string
	// Why is why the epoch began.
	Why string
}

// Size returns how many workers there are.
func (p *Plan) Size() (n int) {
	for _, h := range p.Hosts {
		n += h.Processes
	}
	return n
}

// Of returns a host's place in the plan; nil where it has none.
func (p *Plan) Of(host, id string) *Place {
	if p == nil {
		return nil
	}
	for i := range p.Hosts {
		if p.Hosts[i].Host == host && p.Hosts[i].ID == id {
			return &p.Hosts[i]
		}
	}
	return nil
}

// Why is how the workers of a host ended.
type Why string

// How workers end.
const (
	Finished Why = "finished"  // the run is over
	HandedOn Why = "handed on" // after a step whose snapshot is whole, as they were asked to
	Failed   Why = "failed"
	Mistaken Why = "mistaken" // an error of the user's
	Followed Why = "followed" // they were ended because others had
)

// Ended is what an agent reports when its workers of an epoch have ended.
type Ended struct {
	Host, ID string
	Why      Why
	// Code and Text are the exit code and the error of the worker that ended first, Step the last it took.
	Code int
	Text string
	Step int64
	// Lost is a failure that only says that a worker of another host is no more.
	Lost bool
}

// Stop asks the workers of an epoch to end: after a step, or, where Hard, at once.
type Stop struct {
	Why  string
	Hard bool
}

// Done is how the job ended.
type Done struct {
	Code int
	Text string
}

// Failure is one that the job has continued after.
type Failure struct {
	Host, Text string
	Step       int64
	Epoch      int
}

// View is all that the agents have told.
type View struct {
	Members  map[string]Member
	Drained  map[string]bool
	Leader   string
	Epoch    int
	Plan     *Plan
	Ended    map[string]Ended // of the epoch, by host
	Stop     *Stop            // of the epoch
	Safe     bool             // a snapshot of the epoch is whole in all its processes
	Done     *Done
	Failures []Failure
	Finished map[string]bool

	revisions map[string]int64
}

// Keys of a job.
const (
	membersKey  = "members/"
	drainKey    = "drain/"
	leaderKey   = "leader"
	epochKey    = "epoch"
	doneKey     = "done"
	failuresKey = "failures"
)

// MemberKey returns where a host reports itself, LeaderKey where the one that leads does, and so on.
func MemberKey(host string) string { return membersKey + host }

// DrainKey returns where somebody asks a host to leave.
func DrainKey(host string) string { return drainKey + host }

// LeaderKey returns who leads.
func LeaderKey() string { return leaderKey }

// EndedKey returns where a host reports how its workers ended.
func EndedKey(epoch int, host string) string { return fmt.Sprintf("epoch/%d/ended/%s", epoch, host) }

// CardsKey returns what the workers of a host have put before the n-th barrier of an epoch.
func CardsKey(epoch, n int, host string) string {
	return fmt.Sprintf("epoch/%d/pmi/%d/%s", epoch, n, host)
}

// SafeKey is there once a snapshot of an epoch is whole in all its processes.
func SafeKey(epoch int) string { return fmt.Sprintf("epoch/%d/safe", epoch) }

// SnapshotsKey returns which steps a host holds.
func SnapshotsKey(host string) string { return "snapshots/" + host }

// EventsKey returns where the last events are.
func EventsKey(host string) string { return "events/" + host }

// ProgressKey returns where the first process is.
func ProgressKey() string { return "progress" }

func planKey(epoch int) string { return fmt.Sprintf("epoch/%d/plan", epoch) }
func stopKey(epoch int) string { return fmt.Sprintf("epoch/%d/stop", epoch) }

// Read makes a view of the entries of a job, whose keys begin with prefix.
func Read(entries []store.Entry, prefix string) (*View, error) {
	v := &View{Members: map[string]Member{}, Drained: map[string]bool{}, Ended: map[string]Ended{},
		revisions: map[string]int64{}}
	values := map[string][]byte{}
	for _, e := range entries {
		key := strings.TrimPrefix(e.Key, prefix)
		v.revisions[key], values[key] = e.Revision, e.Value
	}
	v.Leader = string(values[leaderKey])
	if text, ok := values[epochKey]; ok {
		n, err := strconv.Atoi(string(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("key %s%s: got %q: want a number: the keys are not of a job of this version",
				prefix,
				epochKey, text)
		}
		v.Epoch = n
	}
	for key, value := range values {
		if err := v.take(key, value); err != nil {
			return nil, fmt.Errorf("key %s%s: %w: the keys are not of a job of this version", prefix, key, err)
		}
	}
	if v.Epoch > 0 && v.Plan == nil {
		return nil, fmt.Errorf("key %s%s is not there", prefix, planKey(v.Epoch))
	}
	return v, nil
}

// take reads one value.
func (v *View) take(key string, value []byte) error {
	mine := fmt.Sprintf("epoch/%d/", v.Epoch)
	switch {
	case strings.HasPrefix(key, membersKey):
		return keep(v.Members, strings.TrimPrefix(key, membersKey), value)
	case strings.HasPrefix(key, drainKey):
		v.Drained[strings.TrimPrefix(key, drainKey)] = true
	case strings.HasPrefix(key, mine+"ended/"):
		return keep(v.Ended, strings.TrimPrefix(key, mine+"ended/"), value)
	case key == SafeKey(v.Epoch):
		v.Safe = true
	case key == planKey(v.Epoch):
		return json.Unmarshal(value, &v.Plan)
	case key == stopKey(v.Epoch):
		return json.Unmarshal(value, &v.Stop)
	case key == doneKey:
		return json.Unmarshal(value, &v.Done)
	case key == failuresKey:
		return json.Unmarshal(value, &v.Failures)
	}
	return nil
}

func keep[T any](to map[string]T, key string, value []byte) error {
	var x T
	err := json.Unmarshal(value, &x)
	to[key] = x
	return err
}

// Revision returns when a key was last written; 0 where it is not there.
func (v *View) Revision(key string) int64 { return v.revisions[key] }

// lost reports whether a host of the plan is gone: its lease has ended, or its agent is another.
func (v *View) lost(h Place) bool { return v.Members[h.Host].ID != h.ID }

// Ending returns why the workers of the epoch must end at once; empty if they need not.
func (v *View) Ending() string {
	if v.Plan == nil {
		return ""
	}
	if v.Stop != nil && v.Stop.Hard {
		return v.Stop.Why
	}
	for _, h := range v.Plan.Hosts {
		if e, ok := v.Ended[h.Host]; ok {
			if e.Why != Finished && e.Why != HandedOn {
				return fmt.Sprintf("%s: %s", h.Host, e.Text)
			}
		} else if v.lost(h) {
			return fmt.Sprintf("host %s is lost", h.Host)
		}
	}
	return ""
}

// over reports whether no worker of the epoch runs any more.
func (v *View) over() bool {
	for _, h := range v.Plan.Hosts {
		if _, ended := v.Ended[h.Host]; !ended && !v.lost(h) {
			return false
		}
	}
	return true
}

// all reports whether all hosts of the plan ended in a way.
func (v *View) all(why Why) bool {
	return !slices.ContainsFunc(v.Plan.Hosts, func(h Place) bool { return v.Ended[h.Host].Why != why })
}
