package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// telling shows on standard error how far long work is that has parts: a bar on a terminal, a line now and then elsewhere.
func telling() func(what string, done, all int) {
	var bar *progressbar.ProgressBar
	last, shown := "", time.Time{}
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	return func(what string, done, all int) {
		switch {
		case terminal && what != last:
			bar = progressbar.NewOptions(all, progressbar.OptionSetWidth(24), progressbar.OptionSetDescription(what), progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWriter(os.Stderr))
			_ = bar.Set(done) // a bar that cannot be drawn is no reason to stop
		case terminal:
			_ = bar.Set(done)
		case what != last || time.Since(shown) >= 2*quiet:
			shown = time.Now()
			fmt.Fprintf(os.Stderr, "%s: %d of %d\n", what, done, all)
		}
		last = what
	}
}
