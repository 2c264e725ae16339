package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/fit"
)

// traffic sums the bytes and times of collectives by axes, kind and group, as text.
type traffic map[string]fit.CollectiveLog

func (t traffic) add(s galley.Span) {
	t.plus(fit.CollectiveLog{Axes: s.Axes, Kind: s.Name, Group: s.Group, Calls: 1, Bytes: s.Bytes,
		Seconds: s.End.Sub(s.Since).Seconds(), WaitSeconds: s.End.Sub(s.Start).Seconds()})
}

func (t traffic) plus(f fit.CollectiveLog) {
	key := f.Axes + " " + f.Kind + " " + f.Group
	sum := t[key]
	f.Calls, f.Bytes = f.Calls+sum.Calls, f.Bytes+sum.Bytes
	f.Seconds, f.WaitSeconds = f.Seconds+sum.Seconds, f.WaitSeconds+sum.WaitSeconds
	t[key] = f
}

// list returns the traffic in the order of its keys.
func (t traffic) list() []fit.CollectiveLog {
	var list []fit.CollectiveLog
	for _, key := range slices.Sorted(maps.Keys(t)) {
		list = append(list, t[key])
	}
	return list
}

// ofAll returns the traffic of all processes together; all of them call it.
func ofAll(own traffic) (traffic, error) {
	if job == nil {
		return own, nil
	}
	text, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	texts, err := job.All(string(text))
	if err != nil {
		return nil, err
	}
	all := traffic{}
	for _, text := range texts {
		var part traffic
		if err := json.Unmarshal([]byte(text), &part); err != nil {
			return nil, err
		}
		for _, f := range part {
			all.plus(f)
		}
	}
	return all, nil
}

// printTraffic prints the bytes and times of the collectives of all processes; all processes call it.
func printTraffic(own traffic) error {
	all, err := ofAll(own)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AXES\tCOLLECTIVE\tGROUP\tCALLS\tBYTES\tTIME\tWAIT")
	for _, f := range all.list() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%.2f ms\t%.2f ms\n", f.Axes, f.Kind, f.Group, f.Calls, f.Bytes,
			1e3*f.Seconds, 1e3*f.WaitSeconds)
	}
	return w.Flush()
}
