package main

import (
	"math/bits"

	"github.com/galley-ml/galley"
)

// hostsOf returns the hosts of a job's processes, by the host name of each process: consecutive processes of
// one name share a host. Each process has the given number of threads.
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

// sharing returns how many consecutive devices share a host, if all hosts have equally many. It returns 0 if
// that is all devices, or one, or no power of two: hierarchical collectives give the same bits as flat ones
// only for powers of two.
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
