// Package worker connects a process of an elastic job with the agent that started it: it sends heartbeats,
// steps and snapshots, ends after a step on request, and ends immediately when the agent's permission
// expires.
package worker

import (
	"os"
	"strconv"
	"strings"
)

// Report is a message from a worker to its agent; only fields that are set count.
type Report struct {
	// Step is the number of completed steps, Seconds the duration of the last one, Loss its loss.
	Step    int64   `json:"step,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Loss    string  `json:"loss,omitempty"`
	// Sealed is the directory of a complete snapshot after Step; Sole is whether other hosts need copies of its
	// boxes.
	Sealed string `json:"sealed,omitempty"`
	Sole   bool   `json:"sole,omitempty"`
	// Met means that the worker has connected to all others; Ending that it takes no further steps.
	Met    bool `json:"met,omitempty"`
	Ending bool `json:"ending,omitempty"`
	// Safe is a step whose snapshot is complete in all processes.
	Safe int64 `json:"safe,omitempty"`
	// Strategy is the strategy of the step, Bytes the size of a snapshot on this host.
	Strategy string `json:"strategy,omitempty"`
	Bytes    int64  `json:"bytes,omitempty"`
	// Mistake is an error of the user, Error any other; Lost is whether it reports the loss of another process.
	Mistake string `json:"mistake,omitempty"`
	Error   string `json:"error,omitempty"`
	Lost    bool   `json:"lost,omitempty"`
}

// Message is a message from an agent to a worker; only fields that are set count.
type Message struct {
	// Until is how long the worker may continue, by the host's monotonic clock, in nanoseconds.
	Until int64 `json:"until,omitempty"`
	// Stop requests that it ends after a step.
	Stop bool `json:"stop,omitempty"`
	// Copied is a step whose snapshot has been copied to another host.
	Copied int64 `json:"copied,omitempty"`
	// Spare means that a waiting host can hold copies, although all workers are on one host.
	Spare bool `json:"spare,omitempty"`
	// Signal is one that the agent received, for a run that no other host continues.
	Signal int `json:"signal,omitempty"`
}

// Exit codes of workers besides those of any command.
const (
	// HandedOn means that the worker ended as requested, after a step with a complete snapshot.
	HandedOn = 75
	// Outlived means that the agent's permission had expired.
	Outlived = 76
)

// Env is what an agent passes to a worker that it starts.
type Env struct {
	// Epoch is the worker's epoch, Dir where it stores its snapshots, Resume the directory of the checkpoint
	// from which it resumes, if any.
	Epoch       int
	Dir, Resume string
	// Hosts is the host of each process.
	Hosts []string
	// Why is the reason why the epoch began, Until how long it may continue without further messages.
	Why   string
	Until int64
	// SnapshotMemory is the memory that is available for snapshots.
	SnapshotMemory int64
	// Strategy is the strategy of the step, as text; empty if the epoch's plan has none.
	Strategy string
}

const variable = "GALLEY_ELASTIC"

// Variables returns the environment variables that encode it.
func (e Env) Variables() []string {
	return []string{variable + "=4", variable + "_EPOCH=" + strconv.Itoa(e.Epoch), variable + "_DIR=" + e.Dir,
		variable + "_RESUME=" + e.Resume, variable + "_HOSTS=" + strings.Join(e.Hosts, ","),
		variable + "_WHY=" + e.Why, variable + "_STRATEGY=" + e.Strategy,
		variable + "_UNTIL=" + strconv.FormatInt(e.Until, 10),
		variable + "_ROOM=" + strconv.FormatInt(e.SnapshotMemory, 10)}
}

// readEnv decodes the environment variables.
func readEnv() (e Env, fd int, ok bool) {
	fd, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return e, 0, false
	}
	e.Epoch, _ = strconv.Atoi(os.Getenv(variable + "_EPOCH"))
	e.Until, _ = strconv.ParseInt(os.Getenv(variable+"_UNTIL"), 10, 64)
	e.SnapshotMemory, _ = strconv.ParseInt(os.Getenv(variable+"_ROOM"), 10, 64)
	e.Dir, e.Resume, e.Why = os.Getenv(variable+"_DIR"), os.Getenv(variable+"_RESUME"),
		os.Getenv(variable+"_WHY")
	e.Strategy = os.Getenv(variable + "_STRATEGY")
	e.Hosts = strings.Split(os.Getenv(variable+"_HOSTS"), ",")
	return e, fd, true
}
