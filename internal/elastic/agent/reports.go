//go:build linux || darwin

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
	"github.com/galley-ml/galley/internal/elastic/worker"
)

// reported handles a worker's report.
func (a *Agent) reported(place int, r worker.Report) {
	w := a.group
	if r.Seconds > 0 {
		a.stepped(place, r)
	}
	if r.Met {
		w.met++
	}
	if r.Ending {
		w.stepped = time.Time{}
	}
	if r.Sealed != "" && r.Sole {
		go a.copyOn(w, place, r)
	}
	if r.Safe > 0 && r.Safe > w.plan.Step && w.safe < 0 {
		w.safe = r.Safe
		a.memory.outgrown(w.plan.Epoch)
		if w.place.First == 0 {
			go a.put(epoch.SafeKey(w.plan.Epoch), []byte("1"))
		}
	}
	if r.Mistake != "" && (w.mistake == "" || place == 0) {
		w.mistake = r.Mistake
	}
	if r.Error != "" {
		text := fmt.Sprintf("process %d: %s", w.place.First+place, r.Error)
		if r.Lost {
			w.losses = append(w.losses, text)
		} else {
			w.errors = append(w.errors, text)
		}
	}
	if r.Strategy != "" {
		a.progress.Strategy = r.Strategy
	}
	a.progress.Bytes = max(r.Bytes, a.progress.Bytes)
}

// keptSteps is the number of steps over which the typical one is computed.
const keptSteps = 31

// stepped handles the report of a step.
func (a *Agent) stepped(place int, r worker.Report) {
	w := a.group
	if w.stepped.IsZero() && len(w.seconds) == 0 && !a.began.IsZero() {
		a.lead.Restart = time.Since(a.began)
	}
	w.step, w.stepped = max(w.step, r.Step), time.Now()
	if place != 0 {
		return
	}
	w.seconds = append(w.seconds, r.Seconds)
	w.seconds = w.seconds[max(0, len(w.seconds)-keptSteps):]
	if w.place.First != 0 || time.Since(a.progress.Time) < time.Second {
		return
	}
	a.progress.Epoch, a.progress.Step, a.progress.Loss, a.progress.Time = w.plan.Epoch, r.Step, r.Loss,
		time.Now().
			UTC()
	a.progress.Seconds = w.typicalStep().Seconds()
	if text, err := json.Marshal(a.progress); err == nil {
		go a.put(epoch.ProgressKey(), text)
	}
}

// put writes a key for information only.
func (a *Agent) put(key string, value []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = a.Store.Commit(ctx, nil, []store.Change{{Key: a.prefix + key, Value: value}})
}

// copyAgain is the delay before a failed copy is retried.
const copyAgain = 200 * time.Millisecond

// copyOn sends another host a copy of what only this one holds, and notifies the worker. Until it has arrived
// no further snapshot is taken, which is reported once; but not for a lost host, which is noticed by its
// lease.
func (a *Agent) copyOn(w *group, place int, r worker.Report) {
	dir := filepath.Join(a.memory.ownDir(w.plan.Epoch, w.place.First+place), r.Sealed)
	began := time.Now()
	for w.over.Err() == nil {
		to := a.keeper(w.plan)
		if to == nil { // no host waits any more
			w.send(place, worker.Message{Copied: r.Step})
			return
		}
		err := a.memory.copyTo(w.over, *to, dir)
		if err == nil {
			w.send(place, worker.Message{Copied: r.Step})
			return
		}
		if time.Since(began) > a.Lease && w.over.Err() == nil && w.uncopied.CompareAndSwap(false, true) {
			a.events.record("snapshots are not copied: host %s does not take that of step %d: %v", to.Host,
				r.Step, err)
		}
		time.Sleep(copyAgain)
	}
}

// keeper returns the host that stores copies of this one's snapshots: the next of the plan, or a waiting one.
func (a *Agent) keeper(p *epoch.Plan) *epoch.Place {
	if len(p.Hosts) == 1 {
		return a.buddy.Load()
	}
	for i, h := range p.Hosts {
		if h.Host == a.Host {
			return &p.Hosts[(i+1)%len(p.Hosts)]
		}
	}
	return nil
}

// fence exchanges what workers put before a barrier with the other hosts, through the store.
func (a *Agent) fence(ctx context.Context, p *epoch.Plan) func(map[string]string) (map[string]string, error) {
	n := 0
	return func(put map[string]string) (map[string]string, error) {
		n++
		text, err := json.Marshal(put)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		below := a.prefix + epoch.CardsKey(p.Epoch, n, "")
		changes := a.Store.Watch(ctx, below)
		if _, err := a.Store.Commit(ctx, nil, []store.Change{{Key: below + a.Host, Value: text}}); err != nil {
			return nil, err
		}
		for {
			entries, err := a.Store.List(ctx, below)
			if err != nil {
				return nil, err
			}
			if len(entries) == len(p.Hosts) {
				return join(entries)
			}
			select {
			case <-changes:
			case <-time.After(tick):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

// join returns all that was put.
func join(entries []store.Entry) (map[string]string, error) {
	all := map[string]string{}
	for _, e := range entries {
		var put map[string]string
		if err := json.Unmarshal(e.Value, &put); err != nil {
			return nil, fmt.Errorf("key %s: %w", e.Key, err)
		}
		maps.Copy(all, put)
	}
	return all, nil
}

// stacksDir returns where the stacks of stuck workers are stored: they outlive the agent.
func (a *Agent) stacksDir() string {
	return filepath.Join(os.TempDir(), "galley-stacks-"+a.Job+"-"+a.Host)
}

// stacksFor is how long workers have to write their stacks; stopped ones never do.
const stacksFor = 3 * time.Second

// awaitFile returns the contents of a file as soon as it exists; nothing if it does not in time.
func awaitFile(path string, until time.Time) []byte {
	for {
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 || time.Now().After(until) {
			return text
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// saveStacks stores the stacks of all workers, once.
func (a *Agent) saveStacks() {
	w := a.group
	if w == nil || w.shown {
		return
	}
	w.shown = true
	w.g.Signal(worker.Stacks)
	until := time.Now().Add(stacksFor)
	for i := range w.place.Processes {
		rank := w.place.First + i
		text := awaitFile(filepath.Join(a.memory.ownDir(w.plan.Epoch, rank), worker.StacksName), until)
		if len(text) > 0 && os.MkdirAll(a.stacksDir(), 0o700) == nil {
			name := fmt.Sprintf("epoch-%d-process-%d.txt", w.plan.Epoch, rank)
			_ = os.WriteFile(filepath.Join(a.stacksDir(), name), text, 0o600) // for debugging only
		}
	}
}
