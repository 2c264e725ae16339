// Package deploy writes what other systems start a job from: batch files for Slurm, manifests for Kubernetes.
// What it writes is text for a person to read, change and keep; nothing is sent anywhere.
package deploy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Hosts is how many hosts a job has: as many as it can get between two numbers, or one number.
type Hosts struct{ Least, Most int }

// Elastic reports whether hosts may come and go.
func (h Hosts) Elastic() bool { return h.Least != h.Most }

func (h Hosts) String() string { return fmt.Sprintf("%d:%d", h.Least, h.Most) }

// voters returns how many of the first hosts run etcd: an odd number, so that most of them can agree.
func (h Hosts) voters() int {
	if h.Least < 3 {
		return 1
	}
	return 3
}

// plain is what a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// quoted returns words as a shell reads them.
func quoted(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = w
		if !plain.MatchString(w) {
			list[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(list, " ")
}

// has reports whether a command line has a flag, alone or with a value.
func has(args []string, flag string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == flag || strings.HasPrefix(a, flag+"=") })
}

// check refuses commands that would not survive what these systems do to them.
func check(args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("want a command of galley behind --, such as -- train --mesh dp=8")
	case args[0] == "launch":
		return fmt.Errorf("launch: want the command that processes run: the rest is written around it")
	case args[0] == "train" && !has(args, "--checkpoint"):
		return fmt.Errorf("train: want --checkpoint=DIR, on a file system that all hosts share: the job is begun " +
			"again after it was ended, and goes on from there")
	}
	return nil
}
