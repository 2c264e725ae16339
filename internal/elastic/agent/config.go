// Package agent is the process that starts the workers of an elastic job on its host, and outlives them. It
// tells the others that its host is there, follows the epochs that they agree on (package epoch), keeps the
// workers' snapshots in memory, gives others what they lack of them, and leads where it is elected.
package agent

import (
	"io"
	"os"
	"time"

	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
)

// Config says what to run, and with whom.
type Config struct {
	// Job and Host are the names of the job and of this host in it.
	Job, Host string
	epoch.Config
	// Processes is how many workers this host starts, Args their program and its arguments.
	Processes int
	Args      []string
	Store     store.Store
	// Dir is a directory in memory, in which the agent makes its own.
	Dir string
	// Address is the name or number by which others reach this host.
	Address string
	// Lease is how long a host may be silent; 0 means 5 s.
	Lease time.Duration
	// Beats is how long a worker may be silent, Stuck how long steps may take at least before they count as
	// stuck; 0 means 10 s and a minute.
	Beats, Stuck time.Duration
	// Meet is how long workers may take to reach each other; 0 means a minute.
	Meet           time.Duration
	Stdout, Stderr io.Writer
	// Signals are those that the process gets.
	Signals <-chan os.Signal
}
