// Package launch starts the processes of a job on this machine and serves them PMI-1, the text
// protocol by which processes of MPICH and its derivatives find each other: a key-value store and a
// barrier.
//
//	code, err := launch.Run(launch.Config{N: 4, Args: []string{"/usr/bin/galley", "train"}})
//
// If a process fails, the others get a few seconds to report what they know and are then killed: none
// is left running.
package launch
