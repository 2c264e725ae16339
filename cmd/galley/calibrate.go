package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley/internal/bench"
	"github.com/galley-ml/galley/internal/plan"
)

// calibrateCmd measures the speed of this machine for the planner.
type calibrateCmd struct {
	Devices int    `help:"In-process devices that share the machine." default:"1"`
	Threads int    `help:"Threads; 0 means all cores."`
	Output  string `short:"o" help:"File to write; - is standard output." default:"-"`
	Passes  int    `help:"How often each is measured: fewer passes are faster, and neighbours on the hardware disturb them more." default:"3"`
	Verbose bool   `short:"v" help:"Print every measurement."`
}

// Help returns the text that galley calibrate --help adds.
func (calibrateCmd) Help() string {
	return `Measures products by size, memory, attention, the cost of starting an op and of communication between
in-process devices, and every op where it stands in training steps of small language models and convolutions,
and writes a calibration (YAML) that prices strategies on this machine: level 1, micro-benchmarks.
Three passes take two minutes on quiet fast cores and up to eight on two busy ones, one pass a third of that.
The file is written after each part, so that a run that is ended leaves one of what it has measured.

Examples:
  galley calibrate --devices 8 -o here.yaml
  galley calibrate --passes 1 -o here.yaml              rougher, in a third of the time`
}

func (c *calibrateCmd) Run() error {
	err := positive(map[string]int{"devices": c.Devices, "passes": c.Passes})
	if err == nil {
		err = natural(map[string]int{"threads": c.Threads})
	}
	if err != nil {
		return err
	}
	if c.Output != "-" {
		if err := writable(filepath.Dir(c.Output)); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	}
	cfg := bench.CalibrateConfig{Devices: c.Devices, Threads: c.Threads, Passes: c.Passes,
		Tell: progressPrinter(),
		Keep: c.keep}
	if c.Verbose {
		cfg.Log, cfg.Tell = os.Stderr, nil
	}
	cal, err := bench.Calibrate(cfg)
	if err != nil {
		return err
	}
	if c.Output == "-" {
		_, err = os.Stdout.Write(cal.YAML())
		return err
	}
	fmt.Println("wrote", c.Output)
	return nil
}

// keep writes the calibration measured so far to the output file, replacing it.
func (c *calibrateCmd) keep(cal plan.Calibration) error {
	if c.Output == "-" {
		return nil
	}
	return writeFile(c.Output, cal.YAML())
}
