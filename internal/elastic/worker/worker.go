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

// Agree is how the processes of a job agree on the largest of small numbers.
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
	taken     Taken
	// last is the step of the newest snapshot, sole whether this process has to wait until it is copied.
	last int64
	sole bool
	// guarded is whether snapshots are copied to another host, as all processes have agreed; lastGuarded whether
	// the newest one was.
	guarded, lastGuarded bool
}

// Join returns this process's part in the elastic job whose agent started it; nil where none has.
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
	go w.hear()
	go w.beat()
	go w.showStacks()
	return w
}

// expired ends the process if the agent's word has run out: another epoch may have begun.
func (w *Worker) expired() {
	if Clock() > w.until.Load() {
		os.Exit(Outlived)
	}
}

// hear takes the agent's words. An agent that is gone ends the process.
func (w *Worker) hear() {
	lines := bufio.NewScanner(w.agent)
	for lines.Scan() {
		var x Word
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

// Beat is how often a worker beats.
const Beat = time.Second

// beat tells the agent that this process lives, and looks whether it may.
func (w *Worker) beat() {
	for range time.Tick(Beat / 4) {
		w.expired()
		w.Tell(Report{})
	}
}

// Stacks is the signal by which a worker writes the stacks of its goroutines.
const Stacks = syscall.SIGUSR1

// showStacks writes all stacks to a file beside the snapshots when it is asked to.
func (w *Worker) showStacks() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, Stacks)
	for range asked {
		b := make([]byte, 1<<20)
		_ = os.MkdirAll(w.Dir, 0o700) // the stacks are for whoever looks; nothing rests on them
		path := filepath.Join(w.Dir, StacksName)
		if os.WriteFile(path+".part", b[:runtime.Stack(b, true)], 0o600) == nil {
			_ = os.Rename(path+".part", path)
		}
	}
}

// StacksName is the file of stacks.
const StacksName = "stacks.txt"

// Tell tells the agent.
func (w *Worker) Tell(r Report) {
	if w == nil {
		return
	}
	text, err := json.Marshal(r)
	if err != nil {
		return
	}
	w.say.Lock()
	defer w.say.Unlock()
	_, _ = w.agent.Write(append(text, '\n')) // an agent that is gone is heard of in hear
}

// Stopping reports whether the agent has asked this process to end after a step.
func (w *Worker) Stopping() bool { return w != nil && w.stop.Load() }

// Due reports whether a snapshot is to be taken after a step, the same in all processes. stopping is whether
// the run ends after it.
func (w *Worker) Due(step int64, stopping bool) bool {
	return w != nil && (stopping || w.last < 0 || step-w.last >= int64(w.pace.every))
}

// Save takes a snapshot of the state after a step, unless one before is not yet safe. With must it waits for
// that.
func (w *Worker) Save(s checkpoint.State, at func() checkpoint.Places, agree Agree, must bool) error {
	w.expired()
	if must && !w.guarded {
		spare, err := agree(w.spared())
		if err != nil {
			return err
		}
		w.guarded = spare > 0
	}
	for w.guarded { // on one host the one before is whole: all have agreed on the pace since
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
		w.Tell(Report{Safe: w.last})
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
	w.Tell(Report{Step: s.Step, Sealed: name, Sole: w.sole})
	ended := time.Now()
	w.taken.add(s.Step, ended.Sub(began))
	w.pace.took(began, ended, s.Step)
	agreed, err := agree(w.pace.every + w.spared()*(most+1))
	w.pace.every, w.guarded = agreed%(most+1), w.guarded || agreed > most
	if err == nil && must {
		return w.Save(s, at, agree, true) // until it is safe
	}
	return err
}

// unsafe returns 1 while the newest snapshot of this process is not on another host, if it has to be.
func (w *Worker) unsafe() int {
	if w.last >= 0 && w.sole && w.copied.Load() < w.last {
		return 1
	}
	return 0
}

// spared returns 1 where a host waits that may hold copies.
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

// open takes the memory of snapshots before the first.
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
		need += Slots * sole // of another host's
	}
	if err := w.hasRoom(need); err != nil {
		return err
	}
	w.Tell(Report{Bytes: need})
	w.snapshots, err = checkpoint.NewSnapshots(checkpoint.SnapshotConfig{Dir: w.Dir, Places: places}, s)
	return err
}

// Fits returns an error if a share of the state, which this host holds at least, has too little memory: it is
// told before the first step. All that the host holds is known after it.
func (w *Worker) Fits(share int64) error {
	if w == nil {
		return nil
	}
	return w.hasRoom(Slots * share)
}

// hasRoom returns an error where there is too little memory.
func (w *Worker) hasRoom(need int64) error {
	if need <= w.Room {
		return nil
	}
	return fmt.Errorf(noRoom+": this host needs at least %s, and %s has %s: make it larger "+
		"(mount -o remount,size=…), or say another directory in memory with --memory", bytesText(need),
		// below it are the host's, the epoch's, ours
		filepath.Join(w.Dir, "..", "..", "..", ".."), bytesText(w.Room))
}

// Slots is how many snapshots there may be at a time: two of an epoch, and the one that it began from.
const Slots = 3

func bytesText(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// End tells the agent why this process ends: a mistake of the user's, a process that is lost, or another
// error.
func (w *Worker) End(err error, mistake, lost bool) {
	switch {
	case w == nil || err == nil:
	case mistake && !(w.Resume != "" && strings.Contains(err.Error(), noRoom)):
		w.Tell(Report{Mistake: err.Error()})
	default: // memory that was there when the job began, too: others may have taken it
		w.Tell(Report{Error: err.Error(), Lost: lost})
	}
}

// noRoom is what errors say where there is too little memory. They travel between processes as texts.
const noRoom = "memory for snapshots"

// HandOn ends the process after a step whose snapshot is whole everywhere.
func (w *Worker) HandOn() {
	os.Exit(HandedOn)
}

// Taken returns the snapshots so far.
func (w *Worker) Taken() Taken {
	if w == nil {
		return Taken{}
	}
	return w.taken
}

// pace is how often snapshots are taken: so that they cost less than a share of the steps.
type pace struct {
	every, taken int
	costs, steps []float64 // seconds of the last snapshots, and of a step between them
	ended        time.Time // when the last was taken, after step at
	at           int64
}

// costShare is how much of the time of steps copies may take, so that a run with them has 97 % of its speed:
// what they leave to be read from memory again, what processes agree on and what the agent does is about a
// fifth more. most is how many steps apart they are at most: processes agree on it, and on whether there is a
// spare host, by one number below 256.
const (
	costShare = 0.025
	most      = 127
	// learned is how many snapshots are taken at every step, to learn what they cost: the first ones get their
	// memory from the system.
	learned = 3
	// remembered is how many snapshots medians are of: others may use the machine, too.
	remembered = 7
)

// took notes a snapshot after a step.
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
