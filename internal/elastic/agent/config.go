// Package agent is the process that starts the workers of an elastic job on its host, and outlives them. It
// announces its host, follows the epochs that agents agree on (package epoch), keeps the workers' snapshots
// in memory, provides them to other hosts, and leads if it is elected.
package agent

import (
	"io"
	"os"
	"time"

	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
)

// Config describes the job and the workers.
type Config struct {
	// Job and Host are the names of the job and of this host in it.
	Job, Host string
	epoch.Config
	// Processes is the number of workers on this host, Args their program and its arguments.
	Processes int
	Args      []string
	Store     store.Store
	// Dir is a directory in memory, in which the agent creates its own.
	Dir string
	// Address is the name or IP address at which others reach this host.
	Address string
	// Lease is how long a host may be silent; 0 means 5 s.
	Lease time.Duration
	// Beats is how long a worker may be silent, Stuck the minimal duration after which steps count as stuck; 0
	// means 10 s and a minute.
	Beats, Stuck time.Duration
	// Meet is how long workers may take to connect to each other; 0 means a minute.
	Meet           time.Duration
	Stdout, Stderr io.Writer
	// Signals delivers the signals that the process receives.
	Signals <-chan os.Signal
}
