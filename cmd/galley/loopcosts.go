package main

import (
	"fmt"
	"os"

	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/strict"
)

// priceLoops sets the cost model of loops from the calibration that GALLEY_CALIBRATION names, if any.
func priceLoops() error {
	path := os.Getenv("GALLEY_CALIBRATION")
	if path == "" {
		return nil
	}
	text, err := strict.ReadFile(path, strict.Config)
	if err != nil {
		return fmt.Errorf("GALLEY_CALIBRATION: %w", err)
	}
	cal, err := plan.ParseCalibration(text)
	switch {
	case err != nil:
		return fmt.Errorf("GALLEY_CALIBRATION: %s: %w", path, err)
	case cal.Host == nil:
		return fmt.Errorf("GALLEY_CALIBRATION: %s says nothing of a host: want a file of galley calibrate", path)
	}
	pass.SetCosts(cal.Host.LoopCosts())
	return nil
}
