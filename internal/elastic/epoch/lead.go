package epoch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/galley-ml/galley/internal/elastic/store"
)

// Config holds the requirements of the job.
type Config struct {
	// Min and Max are the smallest and largest number of hosts.
	Min, Max int
	// Devices, if set, is the number of devices that the processes must share evenly.
	Devices int
	// Version and Flags must be the same for all agents and the leader.
	Version, Flags string
	// Price, if set, returns the planner's estimate of a step on hosts in seconds; 0 if it has none. ready is
	// false while the planner is running.
	Price func(hosts []Member) (seconds float64, ready bool)
	// Strategy, if set, returns the strategy for hosts as text; empty leaves it to the workers. It fails if
	// there is no plan for that number of hosts: fewer hosts then take part.
	Strategy func(hosts []Member) (string, error)
}

// Memory is the leader's own memory of durations, which are not in any key. A new leader starts with an empty
// one, which costs only time.
type Memory struct {
	// Now is its clock, which is monotonic.
	Now time.Duration
	// Step is the duration of a step, Restart that of starting an epoch.
	Step, Restart time.Duration
	// since records when a condition was first observed.
	since map[string]time.Duration
	// failed records when hosts failed, and until when they are excluded.
	failed  map[string][]time.Duration
	out     map[string]time.Duration
	times   map[string]int
	counted int
}

// Durations of the leader.
const (
	// Patience is the minimal time that workers have to end after a step.
	Patience = 30 * time.Second
	// A host with failures failures within failedWithin is excluded.
	failedWithin = 10 * time.Minute
	failures     = 3
	// Horizon is the time over which the gain of another host is counted.
	Horizon = 10 * time.Minute
	// LastCall is how long a job that could begin waits for further hosts.
	LastCall = time.Second
)

// Move is what the leader should do; nothing if all fields are zero.
type Move struct {
	// Begin holds the hosts of the next epoch, and Why its reason.
	Begin []Member
	Why   string
	// Stop ends the epoch.
	Stop *Stop
	// Done ends the job.
	Done *Done
	// Waiting names what the job waits for.
	Waiting string
	// Failures, if set, holds the failures so far.
	Failures []Failure
}

// Lead returns what the leader should do.
func (v *View) Lead(c Config, m *Memory) Move {
	switch {
	case v.Done != nil:
		return Move{}
	case v.Plan == nil:
		return v.begin(c, m, "the job begins")
	case v.over():
		return v.next(c, m)
	case v.Ending() != "" || v.Stop != nil && v.Stop.Hard:
		return Move{}
	case v.Stop != nil:
		if m.lasts(fmt.Sprint("stop", v.Epoch)) > max(Patience, 20*m.Step) {
			return Move{Stop: &Stop{Why: v.Stop.Why + ": the workers have not ended", Hard: true}}
		}
		return Move{}
	case len(v.Ended) > 0:
		if m.lasts(fmt.Sprint("ended", v.Epoch)) > max(Patience, 20*m.Step) {
			return Move{Stop: &Stop{Why: "some workers have not ended", Hard: true}}
		}
		return Move{}
	}
	return v.change(c, m)
}

// change ends an epoch in an orderly way: for a host that leaves, or for one that joins and is worth it.
func (v *View) change(c Config, m *Memory) Move {
	for _, h := range v.Plan.Hosts {
		if v.Members[h.Host].Leaving || v.Drained[h.Host] {
			return Move{Stop: &Stop{Why: "host " + h.Host + " leaves"}}
		}
	}
	chosen, _ := v.choose(c, m)
	n, now := 0, v.Plan.Size()
	var names []string
	for _, h := range chosen {
		n += h.Processes
		if v.Plan.Of(h.Host, h.ID) == nil {
			names = append(names, h.Host)
		}
	}
	if n <= now || len(names) == 0 {
		return Move{}
	}
	share, by, ready := v.gain(c, chosen)
	gain := time.Duration(float64(Horizon) * share)
	if !ready || gain <= m.Restart {
		return Move{}
	}
	return Move{
		Stop: &Stop{Why: fmt.Sprintf(
			"%s joins: %d processes in place of %d gain %v of the next %v %s, a restart takes %v",
			strings.Join(
				names,
				", ",
			),
			n,
			now,
			gain.Round(time.Second),
			Horizon,
			by,
			m.Restart.Round(10*time.Millisecond),
		)},
	}
}

// gain returns the fraction of time that other hosts than those of the plan would save: by the planner's
// price of a step on both or, if it has none, by the number of processes.
func (v *View) gain(c Config, chosen []Member) (share float64, by string, ready bool) {
	if c.Price != nil {
		var own []Member
		for _, h := range v.Plan.Hosts {
			own = append(own, v.Members[h.Host])
		}
		was, ready := c.Price(own)
		will, ready2 := c.Price(chosen)
		if !ready || !ready2 {
			return 0, "", false
		}
		if was > 0 && will > 0 {
			return 1 - will/was, fmt.Sprintf("by the planner (%.3g s a step, %.3g s before)", will, was), true
		}
	}
	n, now := Processes(chosen), v.Plan.Size()
	return float64(n-now) / float64(n), "by their number", true
}

// next returns what follows an epoch that is over.
func (v *View) next(c Config, m *Memory) Move {
	list := v.Failures
	why := "the workers have handed on"
	if v.Stop != nil {
		why = v.Stop.Why
	}
	if f := v.failure(); f != nil {
		why = fmt.Sprintf("%s: %s", f.Host, f.Text)
		list = append(list[:len(list):len(list)], *f)
	}
	for _, h := range v.Plan.Hosts {
		switch e, ended := v.Ended[h.Host]; {
		case ended && e.Why == Mistaken:
			return Move{Done: &Done{Code: e.Code, Text: e.Text}}
		case !ended:
			why = fmt.Sprintf("host %s is lost", h.Host)
		}
	}
	if v.all(Finished) {
		return Move{Done: &Done{}}
	}
	m.count(list, v.Epoch)
	if again := repeated(list); again != "" && !v.oneHost(c, list) {
		return Move{Done: &Done{Code: 1, Text: again}}
	}
	move := v.begin(c, m, why)
	if len(list) > len(v.Failures) {
		move.Failures = list[max(0, len(list)-keptFailures):]
	}
	return move
}

// failure returns the failure that ended an epoch: others fail as a consequence, and report that it is lost.
func (v *View) failure() *Failure {
	var found *Failure
	lost := false
	for _, h := range v.Plan.Hosts {
		e, ended := v.Ended[h.Host]
		if ended && e.Why == Failed && (found == nil || lost && !e.Lost) {
			found, lost = &Failure{Host: h.Host, Text: e.Text, Step: e.Step, Epoch: v.Epoch}, e.Lost
		}
	}
	return found
}

// oneHost reports whether the last failure's step has failed on a single host that the others can do without,
// so that it is excluded.
func (v *View) oneHost(c Config, list []Failure) bool {
	last := list[len(list)-1]
	for _, f := range list {
		if f.Step == last.Step && f.Host != last.Host {
			return false
		}
	}
	return v.CanLose(c, last.Host)
}

// keptFailures is the number of failures that are kept.
const keptFailures = 16

// repeated returns the failure that occurred three times in a row at the same step; empty if there is none.
func repeated(list []Failure) string {
	if len(list) < failures {
		return ""
	}
	last := list[len(list)-failures:]
	for _, f := range last {
		if f.Text != last[0].Text || f.Step != last[0].Step {
			return ""
		}
	}
	return fmt.Sprintf("after step %d, for the third time: %s", last[0].Step, last[0].Text)
}

// begin chooses the hosts of the next epoch, or reports what is missing.
func (v *View) begin(c Config, m *Memory, why string) Move {
	chosen, missing := v.choose(c, m)
	if missing != "" {
		return Move{Waiting: missing}
	}
	if v.Plan == nil && len(chosen) < c.Max && m.lasts("begin") < LastCall && c.Max > c.Min {
		return Move{Waiting: fmt.Sprintf("%d of %d hosts are here: a second for others", len(chosen), c.Max)}
	}
	return Move{Begin: chosen, Why: why}
}

// choose returns the hosts that would take part now: those of the plan first, so that ranks stay where they
// are, then by name.
func (v *View) choose(c Config, m *Memory) (chosen []Member, missing string) {
	var list, out []Member
	var notes []string
	for host, x := range v.Members {
		switch {
		case x.Leaving || v.Drained[host]:
			notes = append(notes, host+" leaves")
		case x.Version != c.Version:
			notes = append(notes, fmt.Sprintf("%s has version %s and not %s", host, x.Version, c.Version))
		case x.Flags != c.Flags:
			notes = append(notes, host+" was started with other flags")
		case m.Now < m.out[host]:
			out = append(out, x)
			notes = append(notes, fmt.Sprintf("%s has failed %d times and is left out for %v", host, failures,
				(m.out[host]-m.Now).Round(time.Second)))
		default:
			list = append(list, x)
		}
	}
	if len(list) < c.Min {
		list = append(list, out...) // better those than none
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := v.rank(list[i]), v.rank(list[j])
		return a < b || a == b && list[i].Host < list[j].Host
	})
	list = list[:min(len(list), c.Max)]
	list = c.most(list)
	if len(list) < c.Min {
		notes = append(notes, v.lostHosts()...)
		slices.Sort(notes)
		missing = fmt.Sprintf("%d of at least %d hosts are here (%s)", len(list), c.Min,
			strings.Join(append(names(list), notes...), "; "))
	}
	return list, missing
}

// most returns the longest prefix of a list of hosts on which the job can run. If it is shorter than the
// minimum, workers report why, because the user must fix it.
func (c Config) most(list []Member) []Member {
	for len(list) > 0 && c.Devices > 0 && c.Devices%Processes(list) != 0 {
		list = list[:len(list)-1]
	}
	for n := len(list); n >= c.Min && n > 0 && c.Strategy != nil; n-- {
		if _, err := c.Strategy(list[:n]); err == nil && (c.Devices == 0 || c.Devices%Processes(list[:n]) == 0) {
			return list[:n]
		}
	}
	return list
}

// Others returns the members that are not among the given hosts.
func (v *View) Others(hosts []Place) (list []Place) {
	for _, host := range slices.Sorted(maps.Keys(v.Members)) {
		m := v.Members[host]
		if !slices.ContainsFunc(hosts, func(h Place) bool { return h.Host == host && h.ID == m.ID }) {
			list = append(list, Places([]Member{m})...)
		}
	}
	return list
}

// lostHosts returns the hosts of the plan that do not exist any more.
func (v *View) lostHosts() (notes []string) {
	if v.Plan == nil {
		return nil
	}
	for _, h := range v.Plan.Hosts {
		if _, ok := v.Members[h.Host]; !ok {
			notes = append(notes, h.Host+" is gone")
		}
	}
	return notes
}

// CanLose reports whether the job could continue without a host that takes part.
func (v *View) CanLose(c Config, host string) bool {
	x := *v
	x.Drained = maps.Clone(v.Drained)
	x.Drained[host] = true
	_, missing := x.choose(c, &Memory{})
	return missing == ""
}

// Spare returns a host that could take part and does not, the first by name; nil if there is none.
func (v *View) Spare(c Config) *Place {
	var best *Member
	for host, x := range v.Members {
		fits := !x.Leaving && !v.Drained[host] && x.Version == c.Version && x.Flags == c.Flags
		if fits && v.Plan.Of(host, x.ID) == nil && (best == nil || host < best.Host) {
			best = &x
		}
	}
	if best == nil {
		return nil
	}
	return &Places([]Member{*best})[0]
}

// rank returns a host's first rank in the plan; hosts that are not in it come last.
func (v *View) rank(x Member) int {
	if p := v.Plan.Of(x.Host, x.ID); p != nil {
		return p.First
	}
	return 1 << 30
}

// Processes returns the total number of workers of hosts.
func Processes(list []Member) (n int) {
	for _, x := range list {
		n += x.Processes
	}
	return n
}

func names(list []Member) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = x.Host
	}
	return out
}

// lasts returns how long a condition has held at every call.
func (m *Memory) lasts(what string) time.Duration {
	if m.since == nil {
		m.since = map[string]time.Duration{}
	}
	if since, ok := m.since[what]; !ok || since > m.Now { // restart if the clock went back
		m.since[what] = m.Now
	}
	return m.Now - m.since[what]
}

// count records which hosts have failed: three failures within ten minutes exclude a host for 1, 2, 4 …
// minutes.
func (m *Memory) count(list []Failure, epoch int) {
	if m.failed == nil {
		m.failed, m.out, m.times = map[string][]time.Duration{}, map[string]time.Duration{}, map[string]int{}
	}
	for _, f := range list {
		if f.Epoch != epoch || m.counted >= epoch {
			continue
		}
		recent := slices.DeleteFunc(append(m.failed[f.Host], m.Now), func(t time.Duration) bool {
			return m.Now-t > failedWithin
		})
		if len(recent) >= failures {
			m.out[f.Host] = m.Now + time.Minute<<min(m.times[f.Host], 10)
			m.times[f.Host]++
			recent = nil
		}
		m.failed[f.Host] = recent
	}
	m.counted = max(m.counted, epoch)
}

// Places returns hosts as those of a plan.
func Places(list []Member) []Place {
	out := make([]Place, len(list))
	first := 0
	for i, x := range list {
		out[i] = Place{Host: x.Host, ID: x.ID, Address: x.Address, Machine: x.Machine, First: first,
			Processes: x.Processes}
		first += x.Processes
	}
	return out
}

// Change returns the changes of a move, on the condition that the leader is still the leader and that no
// other has advanced the epoch.
func (v *View) Change(prefix string, m Move, p *Plan) (conditions []store.Condition, changes []store.Change) {
	put := func(key string, x any) {
		text, err := json.Marshal(x)
		if err != nil {
			panic(err) // these types are text and numbers
		}
		changes = append(changes, store.Change{Key: prefix + key, Value: text})
	}
	for _, key := range []string{leaderKey, epochKey} {
		conditions = append(conditions, store.Condition{Key: prefix + key, Revision: v.revisions[key]})
	}
	if m.Failures != nil {
		put(failuresKey, m.Failures)
	}
	switch {
	case p != nil:
		changes = append(changes, store.Change{Key: prefix + epochKey, Value: fmt.Append(nil, p.Epoch)})
		put(planKey(p.Epoch), p)
		changes = append(changes, forget(prefix, p.Epoch-2, v)...)
	case m.Stop != nil:
		put(stopKey(v.Epoch), m.Stop)
	case m.Done != nil:
		put(doneKey, m.Done)
	}
	return conditions, changes
}

// forget removes the keys of an old epoch.
func forget(prefix string, epoch int, v *View) (list []store.Change) {
	below := fmt.Sprintf("epoch/%d/", epoch)
	for key := range v.revisions {
		if strings.HasPrefix(key, below) {
			list = append(list, store.Change{Key: prefix + key, Delete: true})
		}
	}
	return list
}
