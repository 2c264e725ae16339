package checkpoint

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
)

// name is a checkpoint's directory: step-00000012, or step-00000012.1 if a step is saved again. Nothing is
// ever renamed over another, so one of them exists at any moment.
type name struct {
	step    int64
	attempt int
}

func (n name) String() string {
	if n.attempt > 0 {
		return fmt.Sprintf("step-%08d.%d", n.step, n.attempt)
	}
	return fmt.Sprintf("step-%08d", n.step)
}

func (n name) compare(o name) int {
	return cmp.Or(cmp.Compare(n.step, o.step), cmp.Compare(n.attempt, o.attempt))
}

// temporary returns a fresh name that readers ignore.
func (n name) temporary() string { return fmt.Sprintf(".%v.tmp-%016x", n, rand.Uint64()) }

var (
	namePattern = regexp.MustCompile(`^step-(\d{8,18})(?:\.(\d{1,9}))?$`)
	tempPattern = regexp.MustCompile(`^\.step-\d{8,18}(?:\.\d{1,9})?\.tmp-[0-9a-f]{16}$`)
)

func parseName(s string) (name, bool) {
	m := namePattern.FindStringSubmatch(s)
	if m == nil {
		return name{}, false
	}
	var n name
	n.step, _ = strconv.ParseInt(m[1], 10, 64)
	n.attempt, _ = strconv.Atoi("0" + m[2])
	return n, n.String() == s // not 000000012, nor 12.0
}

// list returns the checkpoints in a directory, newest first, and the temporaries.
func list(dir string) (names []name, temps []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if n, ok := parseName(e.Name()); ok {
			names = append(names, n)
		} else if tempPattern.MatchString(e.Name()) {
			temps = append(temps, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b name) int { return b.compare(a) })
	return names, temps, nil
}
