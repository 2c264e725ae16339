package galley

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/step"
)

// Forecast is the predicted duration of a step on in-process devices: Seconds is the wall time, Work the
// core-seconds that devices compute and communicate, Waiting the core-seconds spent idle.
type Forecast = step.Forecast

// Forecast predicts the duration of a step: it prices every node of the devices' programs with a calibration
// (the content of a file written by galley calibrate) and simulates the devices on the cores that they share.
// Nothing runs and no memory is allocated.
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

// Programs returns the distinct programs that the devices run in a step, in order of first use.
func (t *Trainer) Programs(batch ...Type) (list []*Program, err error) {
	defer fault.Recover("plan of the training step", &err)
	s, err := t.tapes("programs", batch)
	if err != nil {
		return nil, err
	}
	return s.Programs(), nil
}
