package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// watch prints where a step hangs if it does not progress for limit and twenty times the longest step so far.
// stop ends the watch.
func (l *loop) watch(limit time.Duration, w io.Writer) (stop func()) {
	if limit <= 0 {
		return func() {}
	}
	end := make(chan struct{})
	go func() {
		tick := time.NewTicker(max(limit/4, time.Millisecond))
		defer tick.Stop()
		last, since, told := l.done.Load(), time.Now(), false
		var before []string
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			doing := l.trainer.RunningOps()
			if n := l.done.Load(); n != last || !slices.Equal(doing, before) {
				last, since, told, before = n, time.Now(), false, doing
			}
			if wait := max(limit, 20*time.Duration(l.longest.Load())); !told && len(doing) > 0 &&
				time.Since(since) >= wait {
				told = true
				fmt.Fprintf(w, "galley: step %d has not moved for %v%s\n", last+1,
					time.Since(since).Round(time.Second), l.busy())
			}
		}
	}()
	return func() { close(end) }
}

// busyLines is the largest number of devices that busy lists.
const busyLines = 16

// busy returns what the devices are running, as the end of a sentence.
func (l *loop) busy() string {
	doing := l.trainer.RunningOps()
	if len(doing) == 0 {
		return ""
	}
	if n := len(doing); n > busyLines {
		doing = append(doing[:busyLines:busyLines], fmt.Sprintf("and %d more", n-busyLines))
	}
	return ": " + strings.Join(doing, "; ")
}
