package main

import (
	"fmt"
	"os"
	"time"
)

// progressPrinter returns a function that shows the progress of long work on standard error: a bar on a
// terminal, a line now and then elsewhere.
func progressPrinter() func(what string, done, all int) {
	var line *bar
	last, shown := "", time.Time{}
	return func(what string, done, all int) {
		if what != last {
			line = newBar(os.Stderr, all)
		}
		switch {
		case line != nil && done == all:
			line.clear()
		case line != nil:
			line.set(done, fmt.Sprintf("%s: %d of %d", what, done, all))
		case what != last || time.Since(shown) >= 2*quiet:
			shown = time.Now()
			fmt.Fprintf(os.Stderr, "%s: %d of %d\n", what, done, all)
		}
		last = what
	}
}
