//go:build linux || darwin

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
	"github.com/galley-ml/galley/internal/elastic/worker"
)

// Agent represents one host in a job.
type Agent struct {
	Config
	prefix string
	member epoch.Member
	local  epoch.Local
	lease  *lease
	memory *memory
	view   *epoch.View
	events events
	beats  beats
	met    map[string]int64 // when members were first seen, by their ID

	// group holds the running workers, of plan; ended is the pending report about the last ones.
	group *group
	ended *epoch.Ended
	// lead is this agent's memory while it is the leader.
	lead epoch.Memory
	// buddy is a waiting host that stores copies while all workers are on this one; nil if there is none.
	buddy atomic.Pointer[epoch.Place]
	// asked is the signal by which the host was asked to leave, or zero; waiting is when the last report about
	// waiting was made.
	asked   syscall.Signal
	stopped bool
	ran     time.Time // when workers last ended here
	waiting time.Time
	began   time.Time
	told    time.Time
	missing time.Time
	// progress is that of the first process, if it runs here.
	progress Progress
}

// Defaults of Config.
const (
	defaultLease = 5 * time.Second
	defaultBeats = 10 * time.Second
	defaultStuck = time.Minute
	defaultMeet  = time.Minute
)

func (c Config) withDefaults() Config {
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	if c.Beats == 0 {
		c.Beats = defaultBeats
	}
	if c.Stuck == 0 {
		c.Stuck = defaultStuck
	}
	if c.Meet == 0 {
		c.Meet = defaultMeet
	}
	return c
}

// Run takes part in a job until it is over, or until this host leaves it. It returns the process's exit code.
func Run(ctx context.Context, c Config) (code int, err error) {
	c = c.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &Agent{Config: c, prefix: Prefix(c.Job), beats: beats{prefix: beatsPrefix(c.Job)}}
	a.events.a = a
	if a.memory, err = newMemory(a); err != nil {
		return 1, err
	}
	defer a.memory.close()
	if err := a.enter(ctx); err != nil {
		return 2, err
	}
	defer a.leave()
	return a.loop(ctx)
}

// enter makes this host a member of the job.
func (a *Agent) enter(ctx context.Context) error {
	if err := a.claim(ctx); err != nil {
		return err
	}
	return a.memory.adopt()
}

// register announces this host, under a new lease and as a new start, together with other changes if
// conditions hold.
func (a *Agent) register(ctx context.Context, c []store.Condition, changes []store.Change) (bool, error) {
	id := newID()
	l, err := newLease(ctx, a.Store, a.Lease, func(ctx context.Context, n int) error {
		return a.beats.turn(ctx, a.Store, a.Host, id, n)
	})
	if err != nil {
		return false, fmt.Errorf("a lease of %v: %w", a.Lease, err)
	}
	host, _ := os.Hostname()
	m := epoch.Member{
		Host:      a.Host,
		ID:        id,
		Address:   a.memory.address,
		Machine:   host,
		Processes: a.Processes,
		Cores:     cores(),
		Memory:    memoryBytes(),
		Version:   a.Version,
		Flags:     a.Flags,
		Leaving:   a.asked != 0,
	}
	ok, err := a.Store.Commit(ctx, c, append(changes, a.memberChange(m, l)))
	if !ok || err != nil {
		l.close(ctx)
		return false, err
	}
	a.lease, a.member = l, m
	a.local.Host, a.local.ID, a.local.Reported = a.Host, m.ID, 0
	return true, nil
}

// memberChange returns the change that writes this host's description.
func (a *Agent) memberChange(m epoch.Member, l *lease) store.Change {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // it consists of texts and numbers
	}
	return store.Change{Key: a.prefix + epoch.MemberKey(a.Host), Value: text, Lease: l.l}
}

// writeMember writes the description again.
func (a *Agent) writeMember(ctx context.Context) error {
	_, err := a.Store.Commit(ctx, nil, []store.Change{a.memberChange(a.member, a.lease)})
	return err
}

// leave revokes the lease, so that the others need not wait for its end.
func (a *Agent) leave() {
	a.kill("the agent ends")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.lease.close(ctx)
}

// tick is the interval at which an agent reads the store without a notification.
const tick = 250 * time.Millisecond

// loop follows the job.
func (a *Agent) loop(ctx context.Context) (code int, err error) {
	changes := a.Store.Watch(ctx, a.prefix)
	timer := time.NewTicker(tick)
	defer timer.Stop()
	for {
		out, code, err := a.round(ctx)
		if out || err != nil {
			return code, err
		}
	wait:
		select {
		case <-changes:
		case <-timer.C:
		case e := <-a.group.happens():
			a.happened(e)
			if e.end == nil {
				goto wait // reports of steps change nothing
			}
		case s := <-a.Signals:
			if out, code := a.signalled(ctx, s.(syscall.Signal)); out {
				return code, nil
			}
		case <-ctx.Done():
			return 1, ctx.Err()
		}
	}
}

// round reads the store once and acts on it. out means that this agent is not needed any more.
func (a *Agent) round(ctx context.Context) (out bool, code int, err error) {
	a.local.Leased = a.lease.holds()
	a.group.grant(a.lease.until())
	a.watchWorkers()
	if !a.local.Leased {
		a.kill("the lease of this host may have ended: the store does not answer")
	}
	if err := a.look(ctx); err != nil {
		return a.blind(err)
	}
	a.missing = time.Time{}
	if !a.local.Leased || a.lease.expired() {
		a.kill("the lease of this host has ended")
		return false, 0, a.again(ctx)
	}
	if err := a.writeEnded(ctx); err != nil {
		return a.blind(err)
	}
	a.dropSilent(ctx)
	a.findBuddy()
	if a.view.Drained[a.Host] && a.asked == 0 {
		a.askedToLeave(ctx, syscall.SIGTERM, "drained")
	}
	if out, code, err := a.follow(ctx); out || err != nil {
		return out, code, err
	}
	if a.asked != 0 && a.local.Running == 0 && a.ended == nil && !a.needed() && !a.holds() {
		a.events.record("this host has left the job")
		return true, a.leftCode(), nil
	}
	return false, 0, a.leadIfElected(ctx)
}

// look reads the keys of the job.
func (a *Agent) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.Lease/2)
	defer cancel()
	entries, err := a.Store.List(ctx, a.prefix)
	if err != nil {
		return err
	}
	v, err := epoch.Read(entries, a.prefix)
	if err == nil {
		a.view = v
	}
	return err
}

// blindFor is how long an agent without workers waits for a store that does not answer.
const blindFor = 10 * time.Minute

// blind is a round without a store: nothing is started, and workers continue while the lease is valid.
func (a *Agent) blind(err error) (out bool, code int, _ error) {
	if a.missing.IsZero() {
		a.missing = time.Now()
		a.events.record("the store does not answer: %v", err)
	}
	if time.Since(a.missing) > blindFor {
		return true, 1, fmt.Errorf("the store has not answered for %v: %w", blindFor, err)
	}
	return false, 0, nil
}

// again makes this host a member again after its lease has ended.
func (a *Agent) again(ctx context.Context) error {
	a.lease.cancel()
	if ok, err := a.register(ctx, nil, nil); err != nil || !ok {
		_, _, err = a.blind(err)
		return err
	}
	a.ended = nil // the others know that the lease has ended
	a.events.record("this host has joined again")
	return nil
}

// follow does what the job requires of this host.
func (a *Agent) follow(ctx context.Context) (out bool, code int, err error) {
	switch a.view.Follow(a.local) {
	case epoch.Kill:
		why := a.view.Ending()
		if a.local.Running != a.view.Epoch {
			why = fmt.Sprintf("epoch %d has begun", a.view.Epoch)
		}
		a.kill(why)
		return false, 0, a.writeEnded(ctx)
	case epoch.Start:
		a.start(ctx, a.view.Plan)
	case epoch.HandOn:
		a.group.handOn()
	case epoch.Report:
		a.ended = &epoch.Ended{Host: a.Host, ID: a.member.ID, Why: epoch.Followed, Text: "it had not begun"}
		a.local.Reported = a.view.Epoch
		return false, 0, a.writeEnded(ctx)
	case epoch.Exit:
		d := a.view.Done
		if d.Code != 0 && d.Text != "" {
			return true, d.Code, errors.New(d.Text)
		}
		return true, d.Code, nil
	}
	return false, 0, nil
}

// writeEnded reports how the workers of an epoch ended, and what this host holds of their state.
func (a *Agent) writeEnded(ctx context.Context) error {
	if a.ended == nil {
		return nil
	}
	text, err := json.Marshal(a.ended)
	if err != nil {
		return err
	}
	steps, err := json.Marshal(a.memory.steps())
	if err != nil {
		return err
	}
	_, err = a.Store.Commit(ctx, nil, []store.Change{
		{Key: a.prefix + epoch.EndedKey(a.local.Reported, a.Host), Value: text},
		{Key: a.prefix + epoch.SnapshotsKey(a.Host), Value: steps, Lease: a.lease.l}})
	if err != nil {
		return err
	}
	a.ended = nil
	return a.look(ctx)
}

// signalled handles a signal to the agent: the first makes the host leave in an orderly way, the second ends
// it.
func (a *Agent) signalled(ctx context.Context, s syscall.Signal) (out bool, code int) {
	if a.asked != 0 {
		a.events.record("%v again: ended at once", s)
		return true, 128 + int(s)
	}
	a.askedToLeave(ctx, s, s.String())
	return false, 0
}

// askedToLeave makes this host leave in an orderly way: others continue after a step. If no other can, the
// run is stopped as by a signal, and its state saved on disk if it has a directory.
func (a *Agent) askedToLeave(ctx context.Context, s syscall.Signal, how string) {
	a.asked, a.member.Leaving = s, true
	alone := a.view.Plan != nil && len(a.view.Plan.Hosts) == 1 && !a.view.CanLose(a.Config.Config, a.Host)
	if alone && a.group != nil {
		a.events.record("%s: the workers end after this step", how)
		a.stopped = true
		a.group.signal(s)
		return
	}
	a.events.record("%s: this host leaves after this step", how)
	if err := a.writeMember(ctx); err != nil {
		a.events.record("the store does not answer: %v", err)
	}
}

// findBuddy looks for a waiting host that can store copies if all workers run here.
func (a *Agent) findBuddy() {
	w := a.group
	if w == nil || len(w.plan.Hosts) > 1 {
		return
	}
	buddy := a.view.Spare(a.Config.Config)
	a.buddy.Store(buddy)
	if buddy != nil && !w.spare {
		w.spare = true
		w.sendAll(worker.Message{Spare: true})
		a.events.record("host %s waits: it keeps copies of the snapshots", buddy.Host)
	}
}

// needed reports whether this host has not yet reported how its workers ended.
func (a *Agent) needed() bool {
	_, told := a.view.Ended[a.Host]
	return a.view.Plan.Of(a.Host, a.member.ID) != nil && !told
}

// holdFor is how long a leaving host keeps its snapshots for others that do not continue.
const holdFor = 30 * time.Second

// holds reports whether others may need the snapshots of this leaving host: it stays until an epoch without
// it has one of its own.
func (a *Agent) holds() bool {
	if a.ran.IsZero() || a.stopped || time.Since(a.ran) > holdFor || len(a.view.Members) < 2 {
		return false
	}
	return a.view.Plan.Of(a.Host, a.member.ID) != nil || !a.view.Safe
}

// leftCode returns the exit code of a host that was asked to leave.
func (a *Agent) leftCode() int {
	if a.stopped {
		return 128 + int(a.asked)
	}
	return 0
}

// leadIfElected leads if there is no other leader.
func (a *Agent) leadIfElected(ctx context.Context) error {
	if a.view.Leader == "" {
		ok, err := a.Store.Commit(ctx, []store.Condition{{Key: a.prefix + epoch.LeaderKey()}}, []store.Change{
			{Key: a.prefix + epoch.LeaderKey(), Value: []byte(a.member.ID), Lease: a.lease.l}})
		if err != nil || !ok {
			return nil // the next round sees why
		}
		a.lead = epoch.Memory{}
		if a.look(ctx) != nil {
			return nil
		}
	}
	if a.view.Leader != a.member.ID || a.view.Done != nil {
		return nil
	}
	a.lead.Now = time.Duration(worker.Clock())
	a.lead.Step = a.group.typicalStep()
	if a.lead.Restart == 0 {
		a.lead.Restart = firstRestart
	}
	a.move(ctx, a.view.Lead(a.Config.Config, &a.lead))
	return nil
}

// firstRestart is the assumed duration of a restart before one was measured.
const firstRestart = 5 * time.Second

// move executes a move of the leader.
func (a *Agent) move(ctx context.Context, m epoch.Move) {
	switch {
	case m.Waiting != "":
		if time.Since(a.waiting) > time.Minute {
			a.waiting = time.Now()
			a.events.record("waiting: %s", m.Waiting)
		}
	case m.Begin != nil:
		a.beginEpoch(ctx, m)
	case m.Stop != nil || m.Done != nil:
		if m.Stop != nil {
			a.events.record("epoch %d ends: %s", a.view.Epoch, m.Stop.Why)
		}
		conditions, changes := a.view.Change(a.prefix, m, nil)
		_, _ = a.Store.Commit(ctx, conditions, changes) // the next round sees whether it succeeded
	}
}

// beginEpoch advances the epoch: all its hosts resume from the latest step that they hold together.
func (a *Agent) beginEpoch(ctx context.Context, m epoch.Move) {
	p := &epoch.Plan{Epoch: a.view.Epoch + 1, Hosts: epoch.Places(m.Begin), Why: m.Why}
	p.Holders = a.view.Others(p.Hosts)
	held, failed := a.memory.gather(ctx, p)
	if failed != "" {
		if time.Since(a.told) > time.Second {
			a.told = time.Now()
			a.events.record("epoch %d cannot begin: %s", p.Epoch, failed)
		}
		return
	}
	p.From, p.Step = best(held)
	if a.Strategy != nil {
		p.Strategy, _ = a.Strategy(m.Begin) // if there is none, workers report why
	}
	conditions, changes := a.view.Change(a.prefix, m, p)
	if ok, err := a.Store.Commit(ctx, conditions, changes); err != nil || !ok {
		return
	}
	a.began = time.Now()
	a.events.record("epoch %d: %d processes on %s, %s: %s%s", p.Epoch, p.Size(), hostNames(p), fromText(p),
		p.Why, spreadText(p))
}
