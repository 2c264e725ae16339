//go:build linux || darwin

package worker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/galley-ml/galley/internal/checkpoint"
)

// Agree agrees between the processes of a job on the largest of small numbers.
type Agree func(n int) (int, error)

// Worker is this process as part of an elastic job.
type Worker struct {
	Env
	rank  int
	agent *os.File
	say   sync.Mutex

	until  atomic.Int64
	stop   atomic.Bool
	copied atomic.Int64
	spare  atomic.Bool
	signal signals

	snapshots *checkpoint.Snapshots
	pace      pace
	stats     SnapshotStats
	// last is the step of the newest snapshot, sole whether this process has to wait until it is copied.
	last int64
	sole bool
	// guarded is whether snapshots are copied to another host, as all processes have agreed; lastGuarded whether
	// the newest one was.
	guarded, lastGuarded bool
}

// Join connects this process to the agent of the elastic job that started it; it returns nil if none did.
func Join(rank int) *Worker {
	env, fd, ok := readEnv()
	if !ok {
		return nil
	}
	w := &Worker{Env: env, rank: rank, agent: os.NewFile(uintptr(fd), "agent"), last: -1}
	syscall.CloseOnExec(fd)
	w.until.Store(env.Until)
	w.guarded = w.several()
	w.signal.leaveToAgent()
	w.expired()
	go w.handleMessages()
	go w.beat()
	go w.showStacks()
	return w
}

// expired ends the process if the agent's permission has expired, because another epoch may have begun.
func (w *Worker) expired() {
	if Clock() > w.until.Load() {
		os.Exit(Outlived)
	}
}

// handleMessages handles the agent's messages. If the agent is gone, the process ends.
func (w *Worker) handleMessages() {
	lines := bufio.NewScanner(w.agent)
	for lines.Scan() {
		var x Message
		if json.Unmarshal(lines.Bytes(), &x) != nil {
			continue
		}
		if x.Until > 0 {
			w.until.Store(x.Until)
		}
		if x.Stop {
			w.stop.Store(true)
		}
		if x.Copied > 0 {
			w.copied.Store(x.Copied)
		}
		if x.Spare {
			w.spare.Store(true)
		}
		if x.Signal != 0 {
			w.signal.got(syscall.Signal(x.Signal))
		}
	}
	os.Exit(Outlived)
}

// Beat is the interval of a worker's heartbeats.
const Beat = time.Second

// beat sends a heartbeat to the agent, and checks the permission.
func (w *Worker) beat() {
	for range time.Tick(Beat / 4) {
		w.expired()
		w.Report(Report{})
	}
}

// Stacks is the signal on which a worker writes the stacks of its goroutines.
const Stacks = syscall.SIGUSR1

// showStacks writes all stacks to a file beside the snapshots on request.
func (w *Worker) showStacks() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, Stacks)
	for range asked {
		b := make([]byte, 1<<20)
		_ = os.MkdirAll(w.Dir, 0o700) // the stacks are for debugging only
		path := filepath.Join(w.Dir, StacksName)
		if os.WriteFile(path+".part", b[:runtime.Stack(b, true)], 0o600) == nil {
			_ = os.Rename(path+".part", path)
		}
	}
}

// StacksName is the name of the file of stacks.
const StacksName = "stacks.txt"

// Report sends a report to the agent.
func (w *Worker) Report(r Report) {
	if w == nil {
		return
	}
	text, err := json.Marshal(r)
	if err != nil {
		return
	}
	w.say.Lock()
	defer w.say.Unlock()
	_, _ = w.agent.Write(append(text, '\n')) // hear notices an agent that is gone
}

// Stopping reports whether the agent has asked this process to end after a step.
func (w *Worker) Stopping() bool { return w != nil && w.stop.Load() }

// Due reports whether a snapshot is due after a step; all processes agree. stopping is whether the run ends
// after it.
func (w *Worker) Due(step int64, stopping bool) bool {
	return w != nil && (stopping || w.last < 0 || step-w.last >= int64(w.pace.every))
}

// Save takes a snapshot of the state after a step, unless the previous one is not safe yet. With must it
// waits for that.
func (w *Worker) Save(s checkpoint.State, at func() checkpoint.Places, agree Agree, must bool) error {
	w.expired()
	if must && !w.guarded {
		spare, err := agree(w.spared())
		if err != nil {
			return err
		}
		w.guarded = spare > 0
	}
	for w.guarded { // on one host the previous one is complete: all have agreed on the pace since
		busy, err := agree(w.unsafe())
		if err != nil {
			return err
		}
		if busy == 0 {
			break
		}
		if !must {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	if w.last >= 0 {
		w.Report(Report{Safe: w.last})
	}
	if must && w.last == s.Step && w.lastGuarded == w.guarded {
		return nil
	}
	if err := w.open(s, at); err != nil {
		return err
	}
	began := time.Now()
	name, err := w.snapshots.Write(s)
	if err != nil {
		return err
	}
	w.last, w.sole, w.lastGuarded = s.Step, w.snapshots.Sole() && w.guarded, w.guarded
	w.Report(Report{Step: s.Step, Sealed: name, Sole: w.sole})
	ended := time.Now()
	w.stats.add(s.Step, ended.Sub(began))
	w.pace.took(began, ended, s.Step)
	agreed, err := agree(w.pace.every + w.spared()*(most+1))
	w.pace.every, w.guarded = agreed%(most+1), w.guarded || agreed > most
	if err == nil && must {
		return w.Save(s, at, agree, true) // until it is safe
	}
	return err
}

// unsafe returns 1 while the newest snapshot of this process is not on another host although it has to be.
func (w *Worker) unsafe() int {
	if w.last >= 0 && w.sole && w.copied.Load() < w.last {
		return 1
	}
	return 0
}

// spared returns 1 if a waiting host can hold copies.
func (w *Worker) spared() int {
	if w.spare.Load() {
		return 1
	}
	return 0
}

// several reports whether there is more than one host.
func (w *Worker) several() bool {
	for _, h := range w.Hosts {
		if h != w.Hosts[0] {
			return true
		}
	}
	return false
}

// open allocates the memory of snapshots before the first one.
func (w *Worker) open(s checkpoint.State, at func() checkpoint.Places) (err error) {
	if w.snapshots != nil {
		return nil
	}
	places := at()
	all, sole, err := checkpoint.SnapshotBytes(s, places)
	if err != nil {
		return err
	}
	need := Slots * all
	if w.several() {
		need += Slots * sole // of another host
	}
	if err := w.hasRoom(need); err != nil {
		return err
	}
	w.Report(Report{Bytes: need})
	w.snapshots, err = checkpoint.NewSnapshots(checkpoint.SnapshotConfig{Dir: w.Dir, Places: places}, s)
	return err
}

// Fits returns an error before the first step if there is not enough memory for share bytes of state, which
// this host holds at least. The total of the host is known after the first step.
func (w *Worker) Fits(share int64) error {
	if w == nil {
		return nil
	}
	return w.hasRoom(Slots * share)
}

// hasRoom returns an error if there is not enough memory.
func (w *Worker) hasRoom(need int64) error {
	if need <= w.SnapshotMemory {
		return nil
	}
	return fmt.Errorf(noRoom+": this host needs at least %s, and %s has %s: make it larger "+
		"(mount -o remount,size=…), or say another directory in memory with --memory", bytesText(need),
		// below it are the directories of host, epoch and process
		filepath.Join(w.Dir, "..", "..", "..", ".."), bytesText(w.SnapshotMemory))
}

// Slots is the maximal number of snapshots at a time: two of an epoch, and the one that it began from.
const Slots = 3

func bytesText(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// End reports to the agent why this process ends: an error of the user, the loss of another process, or
// another error.
func (w *Worker) End(err error, mistake, lost bool) {
	switch {
	case w == nil || err == nil:
	case mistake && !(w.Resume != "" && strings.Contains(err.Error(), noRoom)):
		w.Report(Report{Mistake: err.Error()})
	default: // even for memory that was available when the job began: others may have taken it
		w.Report(Report{Error: err.Error(), Lost: lost})
	}
}

// noRoom is the text by which errors of missing memory are recognised; errors travel between processes as
// texts.
const noRoom = "memory for snapshots"

// HandOn ends the process after a step whose snapshot is complete everywhere.
func (w *Worker) HandOn() {
	os.Exit(HandedOn)
}

// SnapshotStats returns statistics of the snapshots so far.
func (w *Worker) SnapshotStats() SnapshotStats {
	if w == nil {
		return SnapshotStats{}
	}
	return w.stats
}

// pace decides how often snapshots are taken, such that they cost less than a given share of the steps.
type pace struct {
	every, taken int
	costs, steps []float64 // seconds of the last snapshots, and of a step between them
	ended        time.Time // when the last was taken, after step at
	at           int64
}

// costShare is the fraction of step time that copies may take, so that a run with them has 97 % of its speed:
// cache misses after a copy, agreement between processes and the agent's work add about a fifth. most is the
// maximal distance in steps: processes agree on it, and on whether there is a spare host, with one number
// below 256.
const (
	costShare = 0.025
	most      = 127
	// learned is the number of first snapshots that are taken at every step, to learn their cost: the very first
	// ones get their memory from the system.
	learned = 3
	// remembered is the number of snapshots that medians are taken over, because others may use the machine,
	// too.
	remembered = 7
)

// took records a snapshot after a step.
func (p *pace) took(began, ended time.Time, step int64) {
	if p.taken++; p.taken > 1 && step > p.at {
		p.steps = append(p.steps, began.Sub(p.ended).Seconds()/float64(step-p.at))
		p.costs = append(p.costs, ended.Sub(began).Seconds())
		p.steps, p.costs = p.steps[max(0, len(p.steps)-remembered):], p.costs[max(0, len(p.costs)-remembered):]
	}
	p.ended, p.at, p.every = ended, step, 1
	if budget := costShare * median(p.steps); p.taken > learned && budget > 0 {
		p.every = min(most, max(1, int(math.Ceil(median(p.costs)/budget))))
	}
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
