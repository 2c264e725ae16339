package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/elastic/worker"
	"github.com/galley-ml/galley/internal/mpi"
	processes "github.com/galley-ml/galley/job"
	"github.com/galley-ml/galley/strategy"
)

// elastic is this process's membership in an elastic job; nil if it is in none.
var elastic *worker.Worker

// joinElastic returns this process's membership in the elastic job that an agent started it for.
func joinElastic() *worker.Worker {
	launched, ok := mpi.Launched()
	if !ok {
		return nil
	}
	return worker.Join(launched.Rank)
}

// meetElastic reports to the agent that this process has met all others, by a first collective.
func meetElastic() error {
	if elastic == nil {
		return nil
	}
	_, err := job.Max(0)
	if err == nil {
		elastic.Report(worker.Report{Met: true})
	}
	return err
}

// mistaken reports whether an error is the user's mistake, so that a restart would not help.
func mistaken(err error) bool {
	_, stopped := errors.AsType[*stoppedError](err)
	_, bug := errors.AsType[*galley.BugError](err)
	return !stopped && !bug && !errors.Is(err, errJoin) && !lost(err)
}

// lost reports whether an error means that another process has been lost.
func lost(err error) bool { return processes.Lost(err) }

// errJoin means that a process could not join the others.
var errJoin = errors.New("joining the other processes")

// elasticLoop is the training loop's state of an elastic job.
type elasticLoop struct {
	// leaving says that the processes end after this step, so that a new epoch can begin.
	leaving bool
}

// elasticConfig makes the run resume from the snapshot that the agent has assembled, unless the newest
// checkpoint on disk is of a later step.
func (l *loop) elasticConfig(c *galley.FitConfig) {
	if elastic == nil {
		return
	}
	if c.SaveDir != "" {
		c.Fence = elastic.Epoch
	}
	if elastic.Resume == "" {
		return
	}
	if l.Checkpoint != "" {
		disk, err := l.steps()
		held, _, _ := newestStep(elastic.Resume)
		if err == nil && len(disk) > 0 && disk[0] > held {
			return
		}
	}
	c.Resume, c.ResumeDir, c.Steps, c.From = true, elastic.Resume, l.Steps, 0
}

// newestStep returns the step and path of the newest checkpoint of a directory.
func newestStep(dir string) (step int64, path string, err error) {
	r, err := checkpoint.Open(dir, checkpoint.OpenConfig{Verify: checkpoint.VerifyAtRead})
	if err != nil {
		return -1, "", err
	}
	return r.Meta().Step, r.Path(), r.Close()
}

// fitsSnapshots returns an error if there is too little memory for snapshots of this process's devices. In
// mixed precision only the slots count: the 16-bit parameters are no part of the state.
func (t *training) fitsSnapshots(p *galley.StepPlan) error {
	m := p.Memory[job.Rank()*len(p.Memory)/job.Size()]
	share := m.Slots
	if t.AMP == "" {
		share += m.Weights
	}
	return elastic.Fits(int64(share))
}

// logEpoch writes the reason why an epoch began into the run's log.
func (l *loop) logEpoch() error {
	if elastic == nil {
		return nil
	}
	elastic.Report(worker.Report{Strategy: fmt.Sprint(l.spread)})
	text, err := json.Marshal(map[string]any{"step": l.trainer.Steps(), "event": fmt.Sprintf("epoch %d: %s",
		elastic.Epoch, elastic.Why), "time": time.Now().UTC()})
	if err != nil {
		return err
	}
	return l.log.event(text)
}

// reportStep reports a step to the agent.
func (l *loop) reportStep(m galley.Metrics, took time.Duration) {
	elastic.Report(worker.Report{Step: int64(m.Step + 1), Seconds: took.Seconds(),
		Loss: strconv.FormatFloat(m.Loss, 'g', -1, 64)})
}

// agreeHandOn lets all processes agree, before a step, whether they end after it and leave a snapshot.
func (l *loop) agreeHandOn() error {
	if elastic == nil || l.leaving {
		return nil
	}
	asked := 0
	if elastic.Stopping() {
		asked = 1
	}
	any, err := job.Max(asked)
	l.leaving = any > 0
	return err
}

// StateDue reports whether a snapshot is due after a step.
func (l *loop) StateDue(step int) bool { return elastic.Due(int64(step), l.leaving) }

// OnState takes a snapshot. If the processes are leaving, they end when it is complete everywhere.
func (l *loop) OnState(_ *fit.Progress, s checkpoint.State) error {
	err := elastic.Save(s, l.places, job.Max, l.leaving)
	l.at = time.Now()
	if err == nil && l.leaving {
		elastic.HandOn()
	}
	return err
}

// epochStrategy returns the strategy of the epoch's plan if the flags leave it to the planner; nil if the
// plan has none, or plans are measured first.
func (t *training) epochStrategy() (*galley.Strategy, error) {
	if elastic == nil || elastic.Strategy == "" || t.Mesh != "" || t.Plan != "" || t.probes() {
		return nil, nil
	}
	s, err := strategy.Parse(elastic.Strategy)
	if err != nil {
		return nil, fmt.Errorf("the strategy of epoch %d, %q: %w", elastic.Epoch, elastic.Strategy, err)
	}
	if job.First() {
		fmt.Printf("%s: the plan of epoch %d\n", s, elastic.Epoch)
	}
	return &s, nil
}

// places returns the placement of the devices on the processes.
func (l *loop) places() checkpoint.Places {
	n, size := 1, job.Size()
	if l.spread != nil {
		n = l.spread.Devices()
	}
	return checkpoint.Places{Host: elastic.Hosts, Me: job.Rank(),
		Process: func(device int) int { return device * size / n }}
}
