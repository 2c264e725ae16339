package galley

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/step"
)

// Forecast is how long a step on in-process devices should take: Seconds from its start to its end, Work the
// cores' seconds that devices compute and communicate, Waiting those in which a core has nothing to do.
type Forecast = step.Forecast

// Forecast prices the very programs that the step's devices run, node by node, by a file of galley calibrate
// as text, and runs them against each other with a clock: devices of one process share its cores. Nothing
// runs, and no memory is taken.
func (t *Trainer) Forecast(calibration []byte, batch ...Type) (f Forecast, err error) {
	defer fault.Recover("forecast of the training step", &err)
	cal, err := plan.ParseCalibration(calibration)
	if err != nil {
		return f, err
	}
	if cal.Host == nil {
		return f, errors.New(
			"forecast: the calibration says nothing of this machine's cores: want one that galley calibrate measured",
		)
	}
	s, err := t.tapes("forecast", batch)
	if err != nil {
		return f, err
	}
	if f, err = s.Forecast(step.Machine{Cores: cal.Host.Cores, Threads: t.c.Device.Threads(),
		Crowd: cal.Host.Crowd, Latency: cal.Host.Idle, Spread: cal.Host.Spread, Prices: cal.Host}); err != nil {
		return f, fmt.Errorf("%s: %w", t.c.Strategy, err)
	}
	return f, nil
}

// Programs returns the programs that the devices of a strategy run in a step, each once, in the order in
// which they come.
func (t *Trainer) Programs(batch ...Type) (list []*Program, err error) {
	defer fault.Recover("plan of the training step", &err)
	s, err := t.tapes("programs", batch)
	if err != nil {
		return nil, err
	}
	return s.Programs(), nil
}
