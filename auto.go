package galley

import (
	"time"

	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/models"
)

// AutoConfig describes a training run that Auto chooses a strategy for.
type AutoConfig struct {
	Model models.Config
	// Batch is the number of sequences per step, Seq the number of tokens per sequence.
	Batch, Seq int
	// Devices is the number of in-process devices.
	Devices int
	// Calibration is the content of a file written by galley calibrate, with the measured speed of the
	// machine to plan for. Empty uses typical values.
	Calibration []byte
	// AMP has the same meaning as Strategy.AMP.
	AMP string
	// Hosts lists the hosts of a multi-process job in order; each process owns the same number of devices.
	// Empty means this process only.
	Hosts []AutoHost
	// Cluster is the content of a file written by galley doctor --cluster, with the measured bandwidth
	// between the processes. Empty uses typical values.
	Cluster []byte
}

// AutoHost is one host of a multi-process job: the name of its Machine, the number of Processes that run
// there and the number of Cores that they share.
type AutoHost = forecast.Host

// AutoPlan is the strategy that Auto chose, with its predicted step time and the alternatives.
type AutoPlan struct {
	Strategy Strategy
	// Step is the predicted step time in seconds; Low and High bound the prediction.
	Step, Low, High float64
	// Reasons has one line for each runner-up that says what it loses.
	Reasons []string
	// Alone is the predicted step time, in seconds, of one device that uses all cores; 0 if the run does not
	// fit on one.
	Alone float64
	// Uncalibrated reports that no measurement of this machine was given, so times come from typical values.
	Uncalibrated bool
	// Devices is the number of devices that was requested.
	Devices int
}

// String returns a summary of the choice and its reasons.
func (p *AutoPlan) String() string { return (*forecast.Plan)(p).String() }

// Auto searches for the fastest strategy for a run on this machine under the cost model, and explains why the
// alternatives are slower.
func Auto(c AutoConfig) (*AutoPlan, error) {
	p, err := forecast.Auto(forecast.Run(c))
	return (*AutoPlan)(p), err
}

// PlanFile reads the strategy from a plan file written by galley plan. It returns an error if the plan was
// made for another model, batch size, sequence length or (unless c.Devices is 0) number of devices.
func PlanFile(path string, c AutoConfig) (Strategy, error) {
	return forecast.File(path, forecast.Run(c))
}

// Price returns the predicted time of one step under a strategy on this machine, by the cost model that Auto
// uses.
func Price(c AutoConfig, s Strategy) (time.Duration, error) {
	return forecast.Price(forecast.Run(c), s)
}
