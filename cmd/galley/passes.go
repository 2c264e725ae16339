package main

import (
	"fmt"

	"github.com/galley-ml/galley/strategy"
)

// passesCmd lists the passes that a strategy can name.
type passesCmd struct{}

func (passesCmd) Help() string {
	return `A strategy names those to run, in order, or those to leave out.

  galley passes                              the list, in the order in which they are done
  galley train --fused-passes=-loops         all but one
  galley train --fused-passes=fold,prune     these alone
  galley dump --after=merge                  what a program is after one of them`
}

// Run prints one line for each pass.
func (passesCmd) Run() error {
	for _, p := range strategy.Passes() {
		who := "all devices"
		if p.For != "" {
			who = p.For
		}
		fmt.Printf("%-14s %-8s %-16s %s\n", p.Name, p.Place, who, p.About)
	}
	return nil
}
