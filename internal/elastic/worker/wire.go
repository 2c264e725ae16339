// Package worker is what a process of an elastic job says to the agent that started it, and hears from it: it
// beats, tells steps and snapshots, ends after a step when it is asked to, and ends at once when the agent's
// word runs out.
package worker

import (
	"os"
	"strconv"
	"strings"
)

// Report is what a worker tells its agent: what is set.
type Report struct {
	// Step is how many steps have been taken, Seconds how long the last took, Loss its loss.
	Step    int64   `json:"step,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Loss    string  `json:"loss,omitempty"`
	// Sealed is the directory of a snapshot that is whole, after Step; Sole if other hosts have to be given
	// boxes.
	Sealed string `json:"sealed,omitempty"`
	Sole   bool   `json:"sole,omitempty"`
	// Met is a worker that has heard of all others; Ending one that takes no further steps.
	Met    bool `json:"met,omitempty"`
	Ending bool `json:"ending,omitempty"`
	// Safe is a step whose snapshot is whole in all processes.
	Safe int64 `json:"safe,omitempty"`
	// Strategy is how the step is spread, Bytes what a snapshot of this host takes.
	Strategy string `json:"strategy,omitempty"`
	Bytes    int64  `json:"bytes,omitempty"`
	// Mistake is an error of the user's, Error any other; Lost if it says that another process is no more.
	Mistake string `json:"mistake,omitempty"`
	Error   string `json:"error,omitempty"`
	Lost    bool   `json:"lost,omitempty"`
}

// Word is what an agent tells a worker: what is set.
type Word struct {
	// Until is how long the worker may continue, by the host's clock that never jumps, in nanoseconds.
	Until int64 `json:"until,omitempty"`
	// Stop asks it to end after a step.
	Stop bool `json:"stop,omitempty"`
	// Copied is a step whose snapshot another host has, too.
	Copied int64 `json:"copied,omitempty"`
	// Spare says that a host waits that may hold copies, though all workers are on one.
	Spare bool `json:"spare,omitempty"`
	// Signal is one that the agent got, for a run that nobody else goes on with.
	Signal int `json:"signal,omitempty"`
}

// Exit codes of workers besides those of any command.
const (
	// HandedOn is a worker that ended as it was asked to, after a step whose snapshot is whole.
	HandedOn = 75
	// Outlived is one whose agent's word had run out.
	Outlived = 76
)

// Env is what an agent tells a worker when it starts it.
type Env struct {
	// Epoch is the worker's, Dir where it keeps its snapshots, Resume the directory of the checkpoint that it
	// continues from, if any.
	Epoch       int
	Dir, Resume string
	// Hosts is the host of each process.
	Hosts []string
	// Why is why the epoch began, Until until when it may continue if it hears nothing.
	Why   string
	Until int64
	// Room is the memory that there is for snapshots.
	Room int64
	// Strategy is how the step is spread, as text; empty where the plan of the epoch does not say.
	Strategy string
}

const variable = "GALLEY_ELASTIC"

// Variables returns the environment that tells it.
func (e Env) Variables() []string {
	return []string{variable + "=4", variable + "_EPOCH=" + strconv.Itoa(e.Epoch), variable + "_DIR=" + e.Dir,
		variable + "_RESUME=" + e.Resume, variable + "_HOSTS=" + strings.Join(e.Hosts, ","),
		variable + "_WHY=" + e.Why, variable + "_STRATEGY=" + e.Strategy,
		variable + "_UNTIL=" + strconv.FormatInt(e.Until, 10), variable + "_ROOM=" + strconv.FormatInt(e.Room, 10)}
}

// readEnv returns what the environment tells.
func readEnv() (e Env, fd int, ok bool) {
	fd, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return e, 0, false
	}
	e.Epoch, _ = strconv.Atoi(os.Getenv(variable + "_EPOCH"))
	e.Until, _ = strconv.ParseInt(os.Getenv(variable+"_UNTIL"), 10, 64)
	e.Room, _ = strconv.ParseInt(os.Getenv(variable+"_ROOM"), 10, 64)
	e.Dir, e.Resume, e.Why = os.Getenv(variable+"_DIR"), os.Getenv(variable+"_RESUME"),
		os.Getenv(variable+"_WHY")
	e.Strategy = os.Getenv(variable + "_STRATEGY")
	e.Hosts = strings.Split(os.Getenv(variable+"_HOSTS"), ",")
	return e, fd, true
}
