package galley

import (
	"time"

	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/models"
)

// AutoConfig is a training run for which a strategy is wanted.
type AutoConfig struct {
	Model models.Config
	// Batch and Seq are the sequences of a step and the tokens of each.
	Batch, Seq int
	// Devices is how many in-process devices there are.
	Devices int
	// Calibration is a file of galley calibrate as text: the machine that it measured is planned for. Empty
	// takes what such machines usually do.
	Calibration []byte
	// AMP is as in Strategy.
	AMP string
	// Hosts is where the processes of a job run, in order, each with as many of the devices; none is this
	// process alone.
	Hosts []AutoHost
	// Cluster is a file of galley doctor --cluster as text, which measured the links of these processes; empty
	// takes what is usual.
	Cluster []byte
}

// AutoHost is one of the hosts of a job: the name of its Machine, how many Processes run there, and the Cores
// that these share.
type AutoHost = forecast.Host

// AutoPlan is the strategy that a planner chose, and why.
type AutoPlan struct {
	Strategy Strategy
	// Step is the seconds that it should take, between Low and High.
	Step, Low, High float64
	// Reasons is a line for each of the next best ones: what it loses.
	Reasons []string
	// Alone is the seconds that one device with all of the machine's cores should take; 0 where it does not fit.
	Alone float64
	// Uncalibrated means that nothing was measured here: the seconds are what such machines usually take.
	Uncalibrated bool
	// Devices is how many were asked for.
	Devices int
}

// String returns what was chosen and why.
func (p *AutoPlan) String() string { return (*forecast.Plan)(p).String() }

// Auto plans a run on this machine: the best strategy under the cost model, and what others would lose.
func Auto(c AutoConfig) (*AutoPlan, error) {
	p, err := forecast.Auto(forecast.Run(c))
	return (*AutoPlan)(p), err
}

// PlanFile returns the strategy of a file that galley plan wrote, for a run. A plan for another model, batch
// or sequence is refused, as is one for another number of devices, where that is not 0.
func PlanFile(path string, c AutoConfig) (Strategy, error) {
	return forecast.File(path, forecast.Run(c))
}

// Price returns how long a step of a run should take under a strategy on this machine, by the cost model that
// Auto plans with.
func Price(c AutoConfig, s Strategy) (time.Duration, error) {
	return forecast.Price(forecast.Run(c), s)
}
