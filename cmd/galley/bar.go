package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// bar is a progress bar: one line of a terminal that is drawn over itself and never wraps.
type bar struct {
	file         *os.File
	all          int
	start, shown time.Time
}

// The time between two drawings, and the width of the bar beside the text.
const (
	redraw   = 100 * time.Millisecond
	barWidth = 24
)

// newBar returns a bar for all parts of some work; nil if the file is no terminal, or one that a launcher
// made: Open MPI gives its processes a terminal, though no person sees it.
func newBar(file *os.File, all int) *bar {
	if job != nil || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return &bar{file: file, all: all, start: time.Now()}
}

// set draws the bar with done parts finished.
func (b *bar) set(done int, text string) {
	if done < b.all && time.Since(b.shown) < redraw {
		return
	}
	b.shown = time.Now()
	columns, _, err := term.GetSize(int(b.file.Fd()))
	if err != nil || columns < 1 {
		columns = 80
	}
	// A line that cannot be drawn is no reason to stop the work: errors are ignored.
	fmt.Fprintf(b.file, "\r\x1b[K%s", barLine(text, done, b.all, columns, time.Since(b.start)))
}

// clear erases the line.
func (b *bar) clear() { fmt.Fprint(b.file, "\r\x1b[K") }

// barLine returns the text, then the time left and the bar if they fit: fewer columns than the terminal has,
// so that the next line is drawn over it.
func barLine(text string, done, all, columns int, elapsed time.Duration) string {
	if room := []rune(text); len(room) >= columns {
		return string(room[:max(0, columns-1)])
	}
	done = min(max(done, 0), all)
	if done > 0 {
		left := time.Duration(float64(elapsed) / float64(done) * float64(all-done)).Round(time.Second)
		if timed := fmt.Sprintf("%s  %s left", text, left); len([]rune(timed)) < columns {
			text = timed
		}
	}
	if all > 0 && len([]rune(text))+barWidth+4 < columns {
		full := barWidth * done / all
		text += "  [" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "]"
	}
	return text
}
