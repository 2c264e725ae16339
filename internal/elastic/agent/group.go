//go:build linux || darwin

package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/worker"
	"github.com/galley-ml/galley/internal/mpi/launch"
)

// group holds the workers of an epoch on this host. A nil group has none.
type group struct {
	plan  *epoch.Plan
	place epoch.Place
	g     *launch.Group
	conns []net.Conn // by index on this host
	ch    chan happening
	over  context.Context
	end   context.CancelFunc

	left     int
	ends     []launch.End
	mistake  string
	errors   []string
	losses   []string  // errors that report the loss of another process
	failing  time.Time // when a worker failed on its own: the others have a moment to report why
	heard    []time.Time
	step     int64
	stepped  time.Time // zero before the first step and after the last
	seconds  []float64
	stop     bool
	uncopied atomic.Bool // failing copies have been reported
	spare    bool        // the workers know of a waiting host that can store copies
	met      int         // the number of workers that have connected to all others
	started  time.Time
	safe     int64
	shown    bool
}

// happening is a report of a worker, or its end.
type happening struct {
	place  int
	report *worker.Report
	end    *launch.End
}

// start starts the workers of a plan.
func (a *Agent) start(ctx context.Context, p *epoch.Plan) {
	a.local.Reported = p.Epoch
	if err := a.startWorkers(ctx, p); err != nil {
		a.ended = &epoch.Ended{
			Host: a.Host,
			ID:   a.member.ID,
			Why:  epoch.Failed,
			Code: 1,
			Text: err.Error(),
			Step: p.Step,
		}
		a.events.record("epoch %d does not start here: %v", p.Epoch, err)
		return
	}
	a.local.Running = p.Epoch
}

func (a *Agent) startWorkers(ctx context.Context, p *epoch.Plan) error {
	resume, err := a.memory.assemble(ctx, p)
	if err != nil {
		return err
	}
	w := &group{plan: p, place: *p.Of(a.Host, a.member.ID), ch: make(chan happening, 64), safe: -1, step: p.Step}
	w.over, w.end = context.WithCancel(ctx)
	files, err := w.connect()
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return err
	}
	c := launch.Config{
		N:       w.place.Processes,
		First:   w.place.First,
		Size:    p.Size(),
		Mapping: mapping(p),
		Args:    a.Args,
		Stdout:  a.Stdout,
		Stderr:  a.Stderr,
	}
	if len(p.Hosts) > 1 {
		c.Fence = a.fence(w.over, p)
	}
	hosts := processHosts(p)
	c.Extra = func(rank int) ([]string, []*os.File) {
		e := worker.Env{
			Epoch:          p.Epoch,
			Dir:            a.memory.ownDir(p.Epoch, rank),
			Resume:         resume,
			Hosts:          hosts,
			Why:            p.Why,
			Until:          a.lease.until(),
			SnapshotMemory: room(a.memory.root),

			Strategy: p.Strategy,
		}
		return e.Variables(), files[rank-w.place.First : rank-w.place.First+1]
	}
	if w.g, err = launch.Start(c); err != nil {
		w.close()
		return err
	}
	w.left, w.started = w.place.Processes, time.Now()
	for i := range w.conns {
		w.heard = append(w.heard, time.Now())
		go w.forwardReports(i)
	}
	go w.wait()
	a.group = w
	return nil
}

// processHosts returns the host of every process.
func processHosts(p *epoch.Plan) (list []string) {
	for _, h := range p.Hosts {
		for range h.Processes {
			list = append(list, h.Host)
		}
	}
	return list
}

// mapping returns where processes run, in PMI's format: which of them share a machine.
func mapping(p *epoch.Plan) string {
	node := map[string]int{}
	var b strings.Builder
	b.WriteString("(vector")
	for _, h := range p.Hosts {
		if _, ok := node[h.Machine]; !ok {
			node[h.Machine] = len(node)
		}
		fmt.Fprintf(&b, ",(%d,1,%d)", node[h.Machine], h.Processes)
	}
	return b.String() + ")"
}

// connect makes a connection to each worker; files are their ends.
func (w *group) connect() (files []*os.File, err error) {
	for range w.place.Processes {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			return files, fmt.Errorf("socketpair: %w", err)
		}
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
		files = append(files, os.NewFile(uintptr(fds[1]), "worker"))
		ours := os.NewFile(uintptr(fds[0]), "agent")
		conn, err := net.FileConn(ours)
		ours.Close()
		if err != nil {
			return files, err
		}
		w.conns = append(w.conns, conn)
	}
	return files, nil
}

// forwardReports forwards the reports of a worker.
func (w *group) forwardReports(place int) {
	lines := bufio.NewScanner(w.conns[place])
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r := &worker.Report{}
		if json.Unmarshal(lines.Bytes(), r) != nil {
			continue
		}
		select {
		case w.ch <- happening{place: place, report: r}:
		case <-w.over.Done():
			return
		}
	}
}

// wait forwards the ends of workers. It ends with the last.
func (w *group) wait() {
	for left := w.place.Processes; left > 0; {
		e, _ := w.g.Next(nil)
		if e.Rank >= 0 {
			left--
		}
		w.ch <- happening{place: e.Rank - w.place.First, end: &e}
	}
}

// happens returns the channel of workers' reports; nil if there are no workers.
func (w *group) happens() <-chan happening {
	if w == nil {
		return nil
	}
	return w.ch
}

// sendAll sends a message to all workers. It does not wait for one that does not listen.
func (w *group) sendAll(x worker.Message) {
	for i := range w.conns {
		w.send(i, x)
	}
}

func (w *group) send(place int, x worker.Message) {
	text, err := json.Marshal(x)
	if err != nil {
		return
	}
	_ = w.conns[place].SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	_, _ = w.conns[place].Write(append(text, '\n')) // a failure shows when the worker ends
}

// grant lets workers continue until a time.
func (w *group) grant(until int64) {
	if w != nil {
		w.sendAll(worker.Message{Until: until})
	}
}

// handOn asks the workers, once, to end after a step.
func (w *group) handOn() {
	if w != nil && !w.stop {
		w.stop = true
		w.sendAll(worker.Message{Stop: true})
	}
}

// signal forwards a signal, because workers obey only those of their agent.
func (w *group) signal(s syscall.Signal) {
	if w != nil {
		w.sendAll(worker.Message{Signal: int(s)})
	}
}

// typicalStep returns the typical duration of a step: the mean of the middle half. A median would not do,
// because a step without a snapshot is reported together with the next one.
func (w *group) typicalStep() time.Duration {
	if w == nil || len(w.seconds) == 0 {
		return 0
	}
	list := slices.Sorted(slices.Values(w.seconds))
	list = list[len(list)/4 : len(list)-len(list)/4]
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return time.Duration(sum / float64(len(list)) * float64(time.Second))
}

func (w *group) close() {
	w.end()
	for _, c := range w.conns {
		c.Close()
	}
}

// happened handles a worker's report, or its end.
func (a *Agent) happened(h happening) {
	w := a.group
	if w == nil {
		return
	}
	if h.report != nil {
		w.heard[h.place] = time.Now()
		a.reported(h.place, *h.report)
		return
	}
	w.ended(*h.end)
	switch {
	case w.left == 0:
		a.over("")
	case h.end.Killed: // only the agent knows why
		a.kill("")
	}
}

// ended records the end of a worker.
func (w *group) ended(e launch.End) {
	if e.Rank >= 0 {
		w.left--
	}
	w.ends = append(w.ends, e)
	if e.Code != 0 && e.Code != worker.HandedOn && w.failing.IsZero() {
		w.failing = time.Now()
	}
}

// sayFor is how long the other workers have to report why one of them failed.
const sayFor = 500 * time.Millisecond

// watchWorkers ends workers that have failed, send no heartbeats or make no progress.
func (a *Agent) watchWorkers() {
	w := a.group
	if w == nil {
		return
	}
	if !w.failing.IsZero() && time.Since(w.failing) > sayFor {
		a.kill("")
		return
	}
	for i, t := range w.heard {
		if time.Since(t) > a.Beats {
			a.failed(fmt.Sprintf("process %d has not beaten for %v", w.place.First+i, a.Beats))
			return
		}
	}
	if w.met < w.place.Processes && time.Since(w.started) > a.Meet {
		a.failed(fmt.Sprintf("processes have not met for %v: can all hosts reach each other (%s)?", a.Meet,
			hostNames(w.plan)))
		return
	}
	if limit := max(a.Stuck, 20*w.typicalStep()); !w.stepped.IsZero() && time.Since(w.stepped) > limit {
		a.saveStacks()
		a.failed(fmt.Sprintf("stuck: no step has ended for %v: the stacks are in %s", limit, a.stacksDir()))
	}
}

// failed ends the workers because of what the agent has observed.
func (a *Agent) failed(text string) {
	w := a.group
	w.errors = append(w.errors, text)
	if w.failing.IsZero() {
		w.failing = time.Now()
	}
	a.kill("")
}

// kill ends all workers and returns when they have ended. why is the reason on other hosts; if it is empty,
// workers of this host have failed.
func (a *Agent) kill(why string) {
	w := a.group
	if w == nil {
		return
	}
	if strings.Contains(why, "stuck: ") {
		a.saveStacks()
	}
	w.g.Kill()
	for w.left > 0 {
		h := <-w.ch
		if h.end == nil {
			a.reported(h.place, *h.report)
			continue
		}
		if h.end.Rank >= 0 {
			w.left--
		}
	}
	a.over(why)
}

// over records how the workers ended, to be reported, and what they left.
func (a *Agent) over(why string) {
	w := a.group
	w.close()
	a.group, a.local.Running, a.ran = nil, 0, time.Now()
	e := w.outcome(why)
	e.Host, e.ID = a.Host, a.member.ID
	a.ended = &e
	a.memory.refresh()
	if e.Why == epoch.Failed || e.Why == epoch.Mistaken {
		a.events.record("epoch %d ended %s: %s", w.plan.Epoch, afterText(e.Step), e.Text)
	}
}

// outcome returns how the workers ended.
func (w *group) outcome(why string) epoch.Ended {
	e := epoch.Ended{Why: epoch.Finished, Step: w.step}
	text, lost := w.reason()
	switch {
	case w.mistake != "":
		return epoch.Ended{Why: epoch.Mistaken, Code: 2, Text: w.mistake, Step: w.step}
	case !w.failing.IsZero():
		e.Why, e.Code, e.Text, e.Lost = epoch.Failed, 1, text, lost
	case why != "":
		e.Why, e.Text = epoch.Followed, why
	case slices.ContainsFunc(w.ends, func(x launch.End) bool { return x.Code == worker.HandedOn }):
		e.Why = epoch.HandedOn
	}
	return e
}

// reason returns why workers of this host have failed; lost means that they miss one of another host.
func (w *group) reason() (text string, lost bool) {
	for _, x := range w.ends {
		if x.Killed {
			return fmt.Sprintf("process %d was %s", x.Rank, x.Text), false
		}
	}
	if len(w.errors) > 0 {
		return w.errors[0], false
	}
	if len(w.losses) > 0 {
		return w.losses[0], true
	}
	for _, x := range w.ends {
		if x.Code != 0 && x.Code != worker.HandedOn {
			return fmt.Sprintf("process %d: %s", x.Rank, x.Text), false
		}
	}
	return "it failed", false
}
