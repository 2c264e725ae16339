package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how a run goes: a bar on a terminal, a line now and then elsewhere.
type progress struct {
	steps, done, tokensPerStep int
	start, shown               time.Time
	bar                        *progressbar.ProgressBar
	smooth                     float64
	finished                   bool
}

// quiet is the time between lines where there is no terminal.
const quiet = 5 * time.Second

func newProgress(steps, tokensPerStep int) *progress {
	p := &progress{steps: steps, tokensPerStep: tokensPerStep, start: time.Now(), shown: time.Now()}
	if term.IsTerminal(int(os.Stdout.Fd())) {
		p.bar = progressbar.NewOptions(steps, progressbar.OptionSetWidth(24), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetPredictTime(true), progressbar.OptionSetElapsedTime(true), progressbar.OptionSetWriter(os.Stdout))
	}
	return p
}

// step counts one step and shows it.
func (p *progress) step(loss float64) {
	if p.done == 0 {
		p.smooth = loss
	}
	p.smooth += (loss - p.smooth) / 10
	p.done++
	elapsed := time.Since(p.start)
	rate := float64(p.done*p.tokensPerStep) / elapsed.Seconds()
	switch {
	case p.bar != nil:
		p.bar.Describe(fmt.Sprintf("step %d/%d  loss %.3f  %.0f tokens/s", p.done, p.steps, p.smooth, rate))
		_ = p.bar.Add(1) // a bar that cannot be drawn is no reason to stop training
	case p.done == 1 || p.done == p.steps || time.Since(p.shown) >= quiet:
		p.shown = time.Now()
		left := time.Duration(float64(elapsed) / float64(p.done) * float64(p.steps-p.done))
		fmt.Printf("step %d/%d  loss %.4f  %.0f tokens/s  %s left\n", p.done, p.steps, p.smooth, rate, left.Round(time.Second))
	}
}

// finish leaves the last state on a line of its own.
func (p *progress) finish() {
	if p.bar != nil && !p.finished {
		_ = p.bar.Exit()
		fmt.Println()
	}
	p.finished = true
}
