package main

import (
	"fmt"
	"os"
	"time"
)

// progress shows how a run goes: a bar on a terminal, a line now and then elsewhere.
type progress struct {
	steps, done, tokensPerStep int
	start, shown               time.Time
	bar                        *bar // nil without a terminal
	smooth                     float64
	finished                   bool
}

// quiet is the time between lines where there is no terminal.
const quiet = 5 * time.Second

func newProgress(steps, tokensPerStep int) *progress {
	now := time.Now()
	return &progress{steps: steps, tokensPerStep: tokensPerStep, start: now, shown: now, bar: newBar(os.Stdout, steps)}
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
		p.bar.set(p.done, fmt.Sprintf("step %d/%d  loss %.3f  %.0f tokens/s", p.done, p.steps, p.smooth, rate))
	case p.done == 1 || p.done == p.steps || time.Since(p.shown) >= quiet:
		p.shown = time.Now()
		left := time.Duration(float64(elapsed) / float64(p.done) * float64(p.steps-p.done))
		fmt.Printf("step %d/%d  loss %.4f  %.0f tokens/s  %s left\n", p.done, p.steps, p.smooth, rate, left.Round(time.Second))
	}
}

// finish leaves the last state on a line of its own.
func (p *progress) finish() {
	if p.bar != nil && !p.finished {
		fmt.Println()
	}
	p.finished = true
}
