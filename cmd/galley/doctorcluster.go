package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/galley-ml/galley/internal/bench"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/discover"
	"github.com/goccy/go-yaml"
)

// discover prints the hardware of a job's machines, measures the links between its processes and writes both
// as a cluster file for the planner.
func (c *doctorCmd) discover() error {
	if c.Output != "" {
		if err := writable(filepath.Dir(c.Output)); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	}
	own := bench.Process{
		Host:    job.Hosts()[job.Rank()],
		Machine: discover.Machine(os.DirFS("/")),
		Threads: threadsHere(),
	}
	if err := own.Measure(); err != nil {
		return err
	}
	processes, err := everyProcess(own)
	if err != nil {
		return err
	}
	printMachines(processes)
	var measured []cluster.Measurement
	if job.Size() > 1 {
		if measured, err = bench.Links(job); err != nil {
			return err
		}
		printMeasured(measured)
	}
	found := bench.Discovered(processes, measured)
	if err := found.Check(); err != nil {
		return err
	}
	if c.Output == "" || !job.First() {
		return nil
	}
	text := found.YAML()
	if strings.HasSuffix(c.Output, ".json") {
		if text, err = yaml.YAMLToJSON(text); err != nil {
			return err
		}
	}
	if err := writeFile(c.Output, text); err != nil {
		return err
	}
	fmt.Printf("wrote     %s: galley plan MODEL %[1]s\n", c.Output)
	return nil
}

// threadsHere returns the number of threads of this process in a job; 0 without a job.
func threadsHere() int {
	if job == nil {
		return 0
	}
	return job.Threads()
}

// everyProcess returns the descriptions of all processes of the job, each of which sends its own.
func everyProcess(own bench.Process) ([]bench.Process, error) {
	if job == nil {
		return []bench.Process{own}, nil
	}
	text, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	all, err := job.All(string(text))
	if err != nil {
		return nil, err
	}
	list := make([]bench.Process, len(all))
	for i, text := range all {
		if err := json.Unmarshal([]byte(text), &list[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", job.Name(i), err)
		}
	}
	return list, nil
}

// printMachines prints every host once, and its processes.
func printMachines(processes []bench.Process) {
	last := ""
	for _, p := range processes {
		if p.Host != last {
			last = p.Host
			fmt.Printf("host      %s\n%s", p.Host, p.Machine)
		}
		fmt.Printf("process   %s\n", p)
	}
}

// printMeasured prints the times of messages and collectives.
func printMeasured(list []cluster.Measurement) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tBETWEEN\tMEMBERS\tBYTES\tTIME\tSPREAD\tRATE")
	for _, m := range list {
		between := m.Between
		if m.Shared {
			between += ", shared"
		}
		fmt.Fprintf(
			w,
			"%s\t%s\t%d\t%.0f\t%.1f µs\t±%.0f %%\t%.2f GB/s\n",
			m.What,
			between,
			m.Members,
			m.Bytes,
			m.Seconds*1e6,
			100*m.Spread,
			m.Bytes/m.Seconds/1e9,
		)
	}
	w.Flush()
}
