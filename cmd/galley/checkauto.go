package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/check"
)

type checkAutoCmd struct {
	Calibration string `help:"File of galley calibrate; this machine is measured where none is given." type:"existingfile" placeholder:"FILE"`
	Devices     int    `default:"4" help:"In-process devices."`
	Limit       int    `default:"2500" help:"Candidates of a program that are tried at most; of a larger space some choices are fixed."`
	Only        string `help:"The programs whose names have this in them; all unless said." placeholder:"WORD"`
	Rounds      int    `default:"15" help:"Turns of timed steps of the plan and of data parallelism; 0 times nothing."`
}

// Help returns the text that galley check auto --help adds.
func (checkAutoCmd) Help() string {
	return `Searches a plan for each of ten programs that are no language models: MLPs, a CNN, an autoencoder, an
encoder with a decoder, two towers, a recommendation model, experts, an LSTM, a mixer. Then every candidate of
the same space is planned and priced, and the plan for all devices takes steps in turn with data parallelism.
The exit code is 1 if a plan is more than 5% from the best of its space, or is measured to take more than 5%
longer than data parallelism. Programs are planned side by side: it takes minutes, fewer with more cores.

Examples:
  galley check auto
  galley calibrate --devices 4 -o here.yaml && galley check auto --calibration here.yaml
  galley calibrate --devices 4 --passes 1 -o here.yaml && galley check auto --calibration here.yaml --limit 300
  galley check auto --calibration here.yaml --devices 2 --rounds 0     searches alone`
}

func (c *checkAutoCmd) Run() error {
	if err := positive(map[string]int{"devices": c.Devices, "limit": c.Limit}); err != nil {
		return err
	}
	if c.Rounds < 0 {
		return fmt.Errorf("--rounds=%d: want 0 or more", c.Rounds)
	}
	programs := slices.DeleteFunc(check.AutoPrograms(),
		func(p check.AutoProgram) bool { return !strings.Contains(p.Name, c.Only) })
	if len(programs) == 0 {
		return fmt.Errorf("--only=%s: no program has this in its name", c.Only)
	}
	text, err := (&checkPlannerCmd{Calibration: c.Calibration}).calibration()
	if err != nil {
		return err
	}
	d := galley.CPU(galley.Config{})
	defer d.Close()
	rows, err := check.Auto(os.Stdout,
		check.AutoConfig{Device: d, Calibration: text, Devices: c.Devices, Limit: c.Limit,
			Rounds: c.Rounds, Programs: programs, Tell: progressPrinter()})
	if err != nil {
		return err
	}
	if !rows.Holds() {
		return errFailed
	}
	return nil
}
