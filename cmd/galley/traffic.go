package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/galley-ml/galley"
)

// traffic is what collectives moved and took, by axes, kind and group, as text.
type traffic map[string]flow

// flow is collectives of one kind in one group: bytes that members sent and received, seconds from begin to
// end, and those for which a device waited.
type flow struct {
	Axes, Kind, Group string
	Calls, Bytes      int
	Time, Wait        float64
}

func (t traffic) add(s galley.Span) {
	t.plus(flow{s.Axes, s.Name, s.Group, 1, s.Bytes, s.End.Sub(s.Since).Seconds(), s.End.Sub(s.Start).Seconds()})
}

func (t traffic) plus(f flow) {
	key := f.Axes + " " + f.Kind + " " + f.Group
	sum := t[key]
	f.Calls, f.Bytes, f.Time, f.Wait = f.Calls+sum.Calls, f.Bytes+sum.Bytes, f.Time+sum.Time, f.Wait+sum.Wait
	t[key] = f
}

// tellTraffic prints what the collectives of all processes moved and took; all processes call it.
func tellTraffic(own traffic) error {
	all := own
	if job != nil {
		text, err := json.Marshal(own)
		if err != nil {
			return err
		}
		texts, err := job.All(string(text))
		if err != nil {
			return err
		}
		all = traffic{}
		for _, text := range texts {
			var part traffic
			if err := json.Unmarshal([]byte(text), &part); err != nil {
				return err
			}
			for _, f := range part {
				all.plus(f)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AXES\tCOLLECTIVE\tGROUP\tCALLS\tBYTES\tTIME\tWAIT")
	for _, key := range slices.Sorted(maps.Keys(all)) {
		f := all[key]
		fmt.Fprintf(
			w,
			"%s\t%s\t%s\t%d\t%d\t%.2f ms\t%.2f ms\n",
			f.Axes,
			f.Kind,
			f.Group,
			f.Calls,
			f.Bytes,
			1e3*f.Time,
			1e3*f.Wait,
		)
	}
	return w.Flush()
}
