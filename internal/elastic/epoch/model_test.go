package epoch

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/internal/elastic/store"
)

// The model: hosts with an agent and a worker each, a store whose leases end by the model's clock, and a run
// of steps that all workers of an epoch take together. Anything may happen in any order: agents look at the
// store and act on what they saw, at once or later; they are killed, stopped, cut off from the store, and
// started again. Agents decide by Follow and Lead, as real ones do.

const (
	modelPrefix = "/galley/model/"
	modelTTL    = 5 * time.Second
	// modelMargin is how long before its lease an agent's word to its worker runs out.
	modelMargin = time.Second
)

// world is the model.
type world struct {
	t     *rapid.T
	store *store.Memory
	now   time.Time
	c     Config
	hosts []*modelHost
	// step is how many steps are taken, acknowledged how many of them every host of the epoch has a snapshot of.
	step, acknowledged int64
	epochs             int
}

// modelHost is a host, its agent and its worker.
type modelHost struct {
	name, id string
	up       bool // the agent lives
	stopped  bool // it does not move
	cut      bool // it does not reach the store
	lease    store.Lease
	renewed  time.Time
	seen     *View
	local    Local
	ended    *Ended
	memory   Memory
	skew     time.Duration // of the clock that it leads by: it may jump
	// running is the epoch of the worker, until when its agent lets it; snapshot is the step that the host
	// holds.
	running  int
	until    time.Time
	snapshot int64
	handOn   bool
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, store: store.NewMemory(), now: time.Unix(1000, 0), step: 0}
	w.store.Now = func() time.Time { return w.now }
	n := rapid.IntRange(1, 4).Draw(t, "hosts")
	w.c = Config{Min: rapid.IntRange(1, n).Draw(t, "least"), Max: n}
	for i := range n {
		w.hosts = append(w.hosts, &modelHost{name: fmt.Sprint("h", i), snapshot: -1})
	}
	return w
}

func ctx() context.Context { return context.Background() }

func (w *world) commit(c []store.Condition, x []store.Change) bool {
	ok, err := w.store.Commit(ctx(), c, x)
	return ok && err == nil
}

// start starts an agent that is down.
func (w *world) start(h *modelHost) {
	if h.up || h.cut {
		return
	}
	*h = modelHost{name: h.name, snapshot: -1, up: true} // its memory went with it
	w.register(h)
}

func (w *world) register(h *modelHost) {
	h.id = fmt.Sprint(h.name, "@", w.now.UnixNano(), "-", len(w.hosts))
	l, _ := w.store.Grant(ctx(), modelTTL)
	text, _ := json.Marshal(Member{Host: h.name, ID: h.id, Processes: 1})
	if !w.commit(nil, []store.Change{{Key: modelPrefix + MemberKey(h.name), Value: text, Lease: l}}) {
		w.t.Fatal("a host cannot register")
	}
	h.lease, h.renewed, h.local, h.ended = l, w.now, Local{Host: h.name, ID: h.id}, nil
}

// word is until when the agent lets its worker continue.
func (h *modelHost) word() time.Time { return h.renewed.Add(modelTTL - modelMargin) }

// look has an agent read the store; what it does with it comes later.
func (w *world) look(h *modelHost) {
	if !h.up || h.stopped || h.cut {
		return
	}
	entries, _ := w.store.List(ctx(), modelPrefix)
	v, err := Read(entries, modelPrefix)
	if err != nil {
		w.t.Fatal(err)
	}
	h.seen = v
}

// renew has an agent renew its lease; one that has ended makes the host join anew.
func (w *world) renew(h *modelHost) {
	if !h.up || h.stopped || h.cut {
		return
	}
	if h.lease.Renew(ctx()) == nil {
		h.renewed = w.now
		if h.running != 0 {
			h.until = h.word()
		}
		return
	}
	w.kill(h)
	w.register(h)
	h.seen = nil
}

// kill ends the worker of a host; the agent will tell.
func (w *world) kill(h *modelHost) {
	if h.running == 0 {
		return
	}
	if h.ended == nil {
		h.ended = &Ended{Host: h.name, ID: h.id, Why: Followed, Step: w.step}
	}
	h.running, h.local.Running = 0, 0
}

// act has an agent do what follows from what it saw last, however long ago.
func (w *world) act(h *modelHost) {
	if !h.up || h.stopped {
		return
	}
	h.local.Leased = w.now.Before(h.word())
	if !h.local.Leased {
		w.kill(h)
	}
	if h.local.Running != 0 && h.running == 0 { // the worker has ended by itself: its agent sees it at once
		h.local.Running = 0
		if h.ended == nil {
			h.ended = &Ended{Host: h.name, ID: h.id, Why: Failed, Text: fmt.Sprint("killed at ", w.now), Step: w.step}
		}
	}
	if h.cut || h.seen == nil {
		return
	}
	if h.ended != nil {
		text, _ := json.Marshal(h.ended)
		w.commit(nil, []store.Change{{Key: modelPrefix + EndedKey(h.local.Reported, h.name), Value: text}})
		h.ended = nil
		w.look(h)
	}
	switch h.seen.Follow(h.local) {
	case Kill:
		w.kill(h)
	case Start:
		h.local.Reported, h.local.Running = h.seen.Epoch, h.seen.Epoch
		if w.now.Before(h.word()) { // a worker looks at its word before anything else
			h.running, h.until, h.handOn = h.seen.Epoch, h.word(), false
		}
	case HandOn:
		h.handOn = true
	case Report:
		h.local.Reported = h.seen.Epoch
		h.ended = &Ended{Host: h.name, ID: h.id, Why: Followed}
	}
	w.lead(h)
}

// lead has an agent lead, if nobody does or it is the one.
func (w *world) lead(h *modelHost) {
	v := h.seen
	if v.Leader == "" {
		w.commit([]store.Condition{{Key: modelPrefix + LeaderKey()}},
			[]store.Change{{Key: modelPrefix + LeaderKey(), Value: []byte(h.id), Lease: h.lease}})
		return
	}
	if v.Leader != h.id {
		return
	}
	h.memory.Now = w.now.Sub(time.Unix(0, 0)) + h.skew
	m := v.Lead(w.c, &h.memory)
	var p *Plan
	if m.Begin != nil {
		p = &Plan{Epoch: v.Epoch + 1, Hosts: Places(m.Begin), Step: w.held(m.Begin), Why: m.Why}
	} else if m.Stop == nil && m.Done == nil {
		return
	}
	conditions, changes := v.Change(modelPrefix, m, p)
	if !w.commit(conditions, changes) || p == nil {
		return
	}
	w.epochs++
	w.checkBegin(p)
}

// held returns the greatest step that the hosts hold together: here every one holds all of it.
func (w *world) held(list []Member) int64 {
	step := int64(-1)
	for _, m := range list {
		for _, h := range w.hosts {
			if h.name == m.Host && h.id == m.ID {
				step = max(step, h.snapshot)
			}
		}
	}
	return step
}

// checkBegin: when an epoch begins no worker runs, and no step is lost that a host of it still holds.
func (w *world) checkBegin(p *Plan) {
	for _, h := range w.hosts {
		if h.running != 0 && w.now.Before(h.until) {
			w.t.Fatalf("epoch %d begins while a worker of epoch %d runs on %s", p.Epoch, h.running, h.name)
		}
	}
	kept := false
	for _, x := range p.Hosts {
		for _, h := range w.hosts {
			kept = kept || h.name == x.Host && h.snapshot >= w.acknowledged
		}
	}
	if kept && p.Step < w.acknowledged {
		w.t.Fatalf("epoch %d begins after step %d: step %d was acknowledged", p.Epoch, p.Step, w.acknowledged)
	}
	w.step = max(p.Step, 0)
	w.acknowledged = w.step
}

// live reports whether a worker runs: one whose agent's word has run out has ended.
func (w *world) live(h *modelHost) bool {
	if h.running != 0 && !w.now.Before(h.until) {
		h.running = 0
	}
	return h.running != 0
}

// train has all workers of an epoch take a step together, and snapshots of it; or hand on, if one was asked
// to.
func (w *world) train() {
	epoch, n, ask := 0, 0, false
	for _, h := range w.hosts {
		if !w.live(h) {
			continue
		}
		if epoch != 0 && epoch != h.running {
			w.t.Fatalf("workers of epochs %d and %d run at once", epoch, h.running)
		}
		epoch, n, ask = h.running, n+1, ask || h.handOn
	}
	entries, _ := w.store.List(ctx(), modelPrefix)
	v, err := Read(entries, modelPrefix)
	if err != nil || epoch == 0 || v.Epoch != epoch || n != len(v.Plan.Hosts) {
		return // some are not there: the others wait for them
	}
	w.step++
	for _, h := range w.hosts {
		if h.running == epoch {
			h.snapshot = w.step
			if ask {
				h.running, h.local.Running = 0, 0
				h.ended = &Ended{Host: h.name, ID: h.id, Why: HandedOn, Step: w.step}
			}
		}
	}
	w.acknowledged = w.step
}

// crash ends an agent; its worker ends with it, and its memory is lost.
func (w *world) crash(h *modelHost) {
	h.up, h.running, h.snapshot, h.stopped = false, 0, -1, false
}

// happen is one thing that may happen.
func (w *world) happen() {
	h := w.hosts[rapid.IntRange(0, len(w.hosts)-1).Draw(w.t, "host")]
	switch rapid.SampledFrom([]string{"look", "act", "look", "act", "train", "round", "round", "round", "tick",
		"renew", "start", "kill", "crash", "stop",
		"cut", "mend", "drain", "leap", "jump"}).Draw(w.t, "what") {
	case "look":
		w.look(h)
	case "act":
		w.act(h)
	case "train":
		w.train()
	case "tick":
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(w.t, "ms")) * time.Millisecond)
	case "round":
		w.round(time.Duration(rapid.IntRange(1, 1500).Draw(w.t, "ms")) * time.Millisecond)
	case "leap":
		w.now = w.now.Add(time.Minute)
	case "jump":
		h.skew += time.Duration(rapid.IntRange(-3600, 3600).Draw(w.t, "seconds")) * time.Second
	case "renew":
		w.renew(h)
	case "start":
		w.start(h)
	case "kill":
		if w.live(h) {
			h.running = 0
		}
	case "crash":
		w.crash(h)
	case "stop":
		h.stopped = true
	case "cut":
		h.cut = true
	case "mend":
		h.stopped, h.cut = false, false
	case "drain":
		if len(w.hosts) > w.c.Min {
			w.commit(nil, []store.Change{{Key: modelPrefix + DrainKey(h.name), Value: []byte("1")}})
		}
	}
}

// round lets time go by while all agents that can do what they do.
func (w *world) round(d time.Duration) {
	w.now = w.now.Add(d)
	for _, h := range w.hosts {
		w.renew(h)
		w.look(h)
		w.act(h)
	}
	w.train()
}

// calm has everything work for a while: all hosts are there and nobody is drained. The job must take steps
// again.
func (w *world) calm() {
	for _, h := range w.hosts {
		h.stopped, h.cut = false, false
		w.commit(nil, []store.Change{{Key: modelPrefix + DrainKey(h.name), Delete: true}})
	}
	before := -1
	for range 400 {
		w.now = w.now.Add(200 * time.Millisecond)
		for _, h := range w.hosts {
			w.start(h)
			w.renew(h)
			w.look(h)
			w.act(h)
		}
		if before < 0 {
			before = int(w.step)
		}
		w.train()
		if int(w.step) > before+3 {
			return
		}
	}
	entries, _ := w.store.List(ctx(), modelPrefix)
	for _, e := range entries {
		w.t.Logf("%s %s", e.Key, e.Value)
	}
	w.t.Fatalf("the job waits for ever: step %d", w.step)
}

// TestModel: leases, elections, crashes and jumps of the clocks that leaders have in any order never give two
// running epochs, lose an acknowledged step, or make the job wait for ever.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 3).Draw(t, "storms") {
			for range rapid.IntRange(1, 60).Draw(t, "things") {
				w.happen()
			}
			w.calm()
		}
	})
}

// TestModelCut: the model reaches what it is for: an epoch that begins without a host that is cut off.
func TestModelCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.calm()
		before := w.epochs
		w.hosts[0].cut = true
		for range 40 {
			w.round(500 * time.Millisecond)
		}
		if len(w.hosts) > 1 && w.c.Min < len(w.hosts) && w.epochs == before {
			t.Fatalf("no epoch without the host that is cut off")
		}
	})
}
