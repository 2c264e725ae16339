// Command planner finds a plan for a cluster of two kinds of hosts and compares it, by simulation, with
// stages of equal length and with ranks in the order of devices.
package main

import (
	_ "embed"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/strategy"
)

//go:embed mixed.yaml
var mixed string

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	c, err := cluster.Parse(mixed)
	if err != nil {
		return err
	}
	m, err := plan.ModelPreset("llama-2-7b")
	if err != nil {
		return err
	}
	work := plan.Workload{Model: m, Batch: 128, Seq: 4096}
	a, err := search.Find(search.Config{Workload: work, Cluster: c, Top: 1, Workers: 2}, plan.Default(c, work))
	if err != nil {
		return err
	}
	if a.Misfit != nil {
		return a.Misfit
	}
	best := a.Plans[0].Strategy
	fmt.Fprintf(w, "plan: %s, at most %.1f%% from the best\n", best.Line(), 100*a.Gap())
	even := best
	even.Layers = nil
	for _, x := range []struct {
		what string
		s    strategy.Strategy
	}{{"stages cut by what they take", best}, {"stages of equal length", even}} {
		s, err := search.Simulate(a.Estimator, x.s, 0)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-28s  %6.2f s a step, simulated; ranks idle %4.1f%%\n", x.what, s.Step(),
			100*s.Timeline.BubbleFraction())
	}
	fmt.Fprintf(w, "ranks mapped by traffic       %6.2f s on links and the slowest device\n", a.Mapping.Seconds)
	_, err = fmt.Fprintf(w, "ranks in the order of devices %6.2f s\n", a.Mapping.Identity)
	return err
}
