// Package launch starts the processes of a job on this machine and serves them PMI-1, the text protocol by
// which MPICH and its kin find each other: keys and values that processes put, a barrier, and the values that
// others get.
//
//	code, err := launch.Run(launch.Config{N: 4, Args: []string{"/usr/bin/galley", "train"}})
//
// If a process fails, the others are given a moment to say what they know and are then ended: none stays
// behind.
package launch
