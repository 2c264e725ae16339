package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/search"
)

// writeComparison prints two plans side by side.
func writeComparison(w io.Writer, names [2]string, files [2]*planfile.File) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	a, b := files[0], files[1]
	row := func(name, x, y string) {
		mark := ""
		if x != y {
			mark = "differs"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", name, x, y, mark)
	}
	fmt.Fprintf(t, "\t%s\t%s\t\n", names[0], names[1])
	row("model", a.Workload.Model.Name, b.Workload.Model.Name)
	row("batch × tokens", fmt.Sprintf("%d × %d", a.Workload.Batch, a.Workload.Seq),
		fmt.Sprintf("%d × %d", b.Workload.Batch, b.Workload.Seq))
	row("cluster", firstLine(a.Cluster), firstLine(b.Cluster))
	row("strategy", a.Strategy.Line(), b.Strategy.Line())
	row("step", search.Seconds(a.Predicted.Step), search.Seconds(b.Predicted.Step))
	row("tokens/s", fmt.Sprintf("%.4g", a.Predicted.TokensPerSecond),
		fmt.Sprintf("%.4g", b.Predicted.TokensPerSecond))
	row("MFU", fmt.Sprintf("%.1f%%", 100*a.Predicted.MFU), fmt.Sprintf("%.1f%%", 100*b.Predicted.MFU))
	ea, eb := a.Predicted.Estimate(), b.Predicted.Estimate()
	x, y := search.TimeParts(ea.Parts), search.TimeParts(eb.Parts)
	for i := range x {
		if x[i].Value > 0 || y[i].Value > 0 {
			row("  "+x[i].Name, search.Seconds(x[i].Value), search.Seconds(y[i].Value))
		}
	}
	x, y = search.MemoryParts(ea.Memory), search.MemoryParts(eb.Memory)
	row("memory", fmt.Sprintf("%.1f GB", ea.Memory.Total()/1e9), fmt.Sprintf("%.1f GB", eb.Memory.Total()/1e9))
	for i := range x {
		if x[i].Value > 0 || y[i].Value > 0 {
			row("  "+x[i].Name, fmt.Sprintf("%.1f GB", x[i].Value/1e9), fmt.Sprintf("%.1f GB", y[i].Value/1e9))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s against %s: %s\n", names[1], names[0],
		search.Why(search.Plan{Strategy: a.Strategy, Estimate: ea}, search.Plan{Strategy: b.Strategy,
			Estimate: eb}))
	return err
}

func firstLine(s string) string {
	line, rest, _ := strings.Cut(s, "\n")
	if rest != "" {
		line += " …"
	}
	return line
}
