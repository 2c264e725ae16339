package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Share is the threads of a machine that a process has, and the NUMA node that they are all of; -1 where they
// are of several.
type Share struct {
	CPUs []int
	Node int
}

// Deal gives n processes the allowed threads, as many each, those of a node next to each other; false where
// there are fewer threads than processes.
func Deal(nodes []Node, allowed []int, n int) ([]Share, bool) {
	if n < 1 || len(allowed) < n {
		return nil, false
	}
	of := map[int]int{}
	for _, node := range nodes {
		for _, cpu := range node.CPUs {
			of[cpu] = node.ID
		}
	}
	order := slices.Clone(allowed)
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(of[a]-of[b], a-b) })
	shares := make([]Share, n)
	for i := range shares {
		s := Share{CPUs: slices.Clone(order[i*len(order)/n : (i+1)*len(order)/n])}
		s.Node = of[s.CPUs[0]]
		if slices.ContainsFunc(s.CPUs, func(c int) bool { return of[c] != s.Node }) || len(nodes) == 0 {
			s.Node = -1
		}
		shares[i] = s
	}
	return shares, true
}

// String returns the share as Parse reads it: 0,1,2@0 is threads 0 to 2 of node 0.
func (s Share) String() string {
	words := make([]string, len(s.CPUs))
	for i, c := range s.CPUs {
		words[i] = fmt.Sprint(c)
	}
	return fmt.Sprintf("%s@%d", strings.Join(words, ","), s.Node)
}

// ParseShare reads a share.
func ParseShare(text string) (Share, error) {
	list, at, ok := strings.Cut(text, "@")
	s := Share{CPUs: List(list)}
	if n, err := fmt.Sscan(at, &s.Node); !ok || n != 1 || err != nil || len(s.CPUs) == 0 || s.Node < -1 ||
		s.Node > 1023 {
		return s, fmt.Errorf("%q: want threads and their node, like 0,1@0", text)
	}
	return s, nil
}
