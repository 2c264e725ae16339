package main

import (
	"math/bits"

	"github.com/galley-ml/galley"
)

// hostsOf returns where the processes of a job run, by the names of their hosts: neighbours of one name are
// on one host. Each has so many threads.
func hostsOf(names []string, threads int) (list []galley.AutoHost) {
	for _, name := range names {
		if n := len(list); n == 0 || list[n-1].Machine != name {
			list = append(list, galley.AutoHost{Machine: name})
		}
		h := &list[len(list)-1]
		h.Processes++
		h.Cores += threads
	}
	return list
}

// sharing returns how many neighbouring devices share a host, if the hosts of the processes have as many
// each; 0 where that is all of them, or one, or no power of two: collectives that go by hosts then have the
// bits of those that do not.
func sharing(names []string, devices int) int {
	hosts := hostsOf(names, 1)
	n := hosts[0].Processes * devices / len(names)
	if len(hosts) == 1 || n < 2 || bits.OnesCount(uint(n)) != 1 {
		return 0
	}
	seen := map[string]bool{}
	for _, h := range hosts {
		if h.Processes != hosts[0].Processes || seen[h.Machine] {
			return 0
		}
		seen[h.Machine] = true
	}
	return n
}
