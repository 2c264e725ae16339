// Package epoch decides how the agents of an elastic job agree, as pure functions of the keys that they read.
//
// An epoch is one run of workers: its plan lists the hosts, and the step to start from. It ends everywhere
// when it ends anywhere. The next one begins when every host of the plan has reported that its workers have
// ended, or has lost its lease, before which it has ended them. So workers of two epochs never run at the
// same time.
//
// Agents read all keys of the job (View), call View.Follow, and the leader View.Lead, to decide what to do,
// and do it. There is no other state, so any agent may be replaced at any time.
package epoch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/elastic/store"
)

// Member is a host of the job, as it describes itself.
type Member struct {
	Host string
	// ID identifies this start of the agent: a restarted agent has another one.
	ID string
	// Address is where the agent listens, Machine the machine that it runs on.
	Address, Machine string
	// Processes is the number of workers that it starts.
	Processes int
	Cores     int
	Memory    int64
	// Version and Flags must be the same on all hosts.
	Version, Flags string
	// Leaving means that the host wants to leave.
	Leaving bool
}

// Place is a host of a plan.
type Place struct {
	Host, ID, Address, Machine string
	// First is the rank of its first worker.
	First, Processes int
}

// Plan describes the run of an epoch.
type Plan struct {
	Epoch int
	Hosts []Place
	// Holders are members that do not take part but may hold parts of snapshots, because they leave or wait.
	Holders []Place
	// Step is the step of the snapshot from which workers resume, written by workers of epoch From; -1 means
	// none: they resume from the newest checkpoint on disk, or start from scratch.
	Step int64
	From int
	// Strategy is the strategy of the step, in the syntax of strategy.Parse; empty leaves it to the workers.
	Strategy string
	// Why is the reason why the epoch began.
	Why string
}

// Size returns the number of workers.
func (p *Plan) Size() (n int) {
	for _, h := range p.Hosts {
		n += h.Processes
	}
	return n
}

// Of returns a host's place in the plan; nil if it has none.
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
	HandedOn Why = "handed on" // after a step with a complete snapshot, as requested
	Failed   Why = "failed"
	Mistaken Why = "mistaken" // an error of the user
	Followed Why = "followed" // ended because others had
)

// Ended is an agent's report that its workers of an epoch have ended.
type Ended struct {
	Host, ID string
	Why      Why
	// Code and Text are the exit code and the error of the worker that ended first, Step its last step.
	Code int
	Text string
	Step int64
	// Lost means that the failure only reports the loss of a worker on another host.
	Lost bool
}

// Stop requests that the workers of an epoch end: after a step or, if Hard, immediately.
type Stop struct {
	Why  string
	Hard bool
}

// Done is how the job ended.
type Done struct {
	Code int
	Text string
}

// Failure is a failure after which the job has continued.
type Failure struct {
	Host, Text string
	Step       int64
	Epoch      int
}

// View is the state of the job, parsed from its keys.
type View struct {
	Members  map[string]Member
	Drained  map[string]bool
	Leader   string
	Epoch    int
	Plan     *Plan
	Ended    map[string]Ended // of the epoch, by host
	Stop     *Stop            // of the epoch
	Safe     bool             // a snapshot of the epoch is complete in all its processes
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

// MemberKey returns the key under which a host describes itself.
func MemberKey(host string) string { return membersKey + host }

// DrainKey returns the key that requests a host to leave.
func DrainKey(host string) string { return drainKey + host }

// LeaderKey returns the key of the leader.
func LeaderKey() string { return leaderKey }

// EndedKey returns the key under which a host reports how its workers ended.
func EndedKey(epoch int, host string) string { return fmt.Sprintf("epoch/%d/ended/%s", epoch, host) }

// CardsKey returns the key of what the workers of a host have put before the n-th barrier of an epoch.
func CardsKey(epoch, n int, host string) string {
	return fmt.Sprintf("epoch/%d/pmi/%d/%s", epoch, n, host)
}

// SafeKey returns a key that exists once a snapshot of an epoch is complete in all its processes.
func SafeKey(epoch int) string { return fmt.Sprintf("epoch/%d/safe", epoch) }

// SnapshotsKey returns the key of the steps whose snapshots a host holds.
func SnapshotsKey(host string) string { return "snapshots/" + host }

// EventsKey returns the key of a host's last events.
func EventsKey(host string) string { return "events/" + host }

// ProgressKey returns the key of the first process's progress.
func ProgressKey() string { return "progress" }

func planKey(epoch int) string { return fmt.Sprintf("epoch/%d/plan", epoch) }
func stopKey(epoch int) string { return fmt.Sprintf("epoch/%d/stop", epoch) }

// Read parses the entries of a job, whose keys begin with prefix.
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

// take parses one value.
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

// Revision returns the revision at which a key was last written; 0 if it does not exist.
func (v *View) Revision(key string) int64 { return v.revisions[key] }

// lost reports whether a host of the plan is gone: its lease has ended, or its agent was restarted.
func (v *View) lost(h Place) bool { return v.Members[h.Host].ID != h.ID }

// Ending returns the reason why the workers of the epoch must end immediately; empty if they need not.
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

// over reports whether no worker of the epoch is running any more.
func (v *View) over() bool {
	for _, h := range v.Plan.Hosts {
		if _, ended := v.Ended[h.Host]; !ended && !v.lost(h) {
			return false
		}
	}
	return true
}

// all reports whether all hosts of the plan ended in the given way.
func (v *View) all(why Why) bool {
	return !slices.ContainsFunc(v.Plan.Hosts, func(h Place) bool { return v.Ended[h.Host].Why != why })
}
