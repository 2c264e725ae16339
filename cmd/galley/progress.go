package main

import (
	"fmt"
	"os"
	"time"

	"github.com/galley-ml/galley"
)

// progress shows the progress of a run: a bar on a terminal, a line now and then elsewhere.
type progress struct {
	// first is how many steps were taken before this run, steps how many there are in all.
	first, steps, done, tokensPerStep int
	start, shown                      time.Time
	bar                               *bar // nil without a terminal
	finished                          bool
}

// quiet is the time between lines without a terminal.
const quiet = 5 * time.Second

func newProgress(first, steps, tokensPerStep int) *progress {
	now := time.Now()
	return &progress{
		first: first, steps: steps, tokensPerStep: tokensPerStep, start: now, shown: now, bar: newBar(os.Stdout,
			steps-first),
	}
}

// seconds returns how long the steps have taken.
func (p *progress) seconds() float64 { return time.Since(p.start).Seconds() }

// step shows a step: its loss, and its number among all, counted from 1.
func (p *progress) step(m galley.Metrics) {
	p.done++
	at, elapsed := m.Step+1, time.Since(p.start)
	rate := float64(p.done*p.tokensPerStep) / elapsed.Seconds()
	wait := ""
	if m.Wait >= slowData {
		wait = fmt.Sprintf("  data late by %v", m.Wait.Round(time.Millisecond))
	}
	switch {
	case p.bar != nil:
		p.finished = false
		p.bar.set(p.done, fmt.Sprintf("step %d/%d  loss %.3f  %.0f tokens/s%s", at, p.steps, m.Loss, rate, wait))
	case p.done == 1 || at == p.steps || time.Since(p.shown) >= quiet:
		p.shown = time.Now()
		left := time.Duration(float64(elapsed) / float64(p.done) * float64(p.steps-at))
		fmt.Printf("step %d/%d  loss %.4f  %.0f tokens/s  %s left%s\n", at, p.steps, m.Loss, rate,
			left.Round(time.Second), wait)
	}
}

// slowData is how long a wait for a batch is worth printing.
const slowData = 10 * time.Millisecond

// finish leaves the last state of the bar on a line of its own.
func (p *progress) finish() {
	if p.bar != nil && !p.finished {
		fmt.Println()
	}
	p.finished = true
}
