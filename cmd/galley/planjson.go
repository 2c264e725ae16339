package main

import (
	"encoding/json"
	"io"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/strategy"
)

// planJSON is the JSON that galley plan --json prints.
type planJSON struct {
	Workload plan.Workload    `json:"workload"`
	Cluster  string           `json:"cluster"`
	Devices  int              `json:"devices"`
	Idle     int              `json:"idle_devices,omitempty"`
	Plans    []planJSONRow    `json:"plans"`
	WhatIf   []planJSONWhatIf `json:"what_if,omitempty"`
	Mapping  []int            `json:"mapping,omitempty"`
	Bound    float64          `json:"bound_seconds"`
	Gap      float64          `json:"gap"`
	Cells    int              `json:"divisions"`
	Visited  int              `json:"visited"`
	Priced   int              `json:"priced"`
	Seconds  float64          `json:"search_seconds"`
}

// planJSONRow is one plan of that JSON.
type planJSONRow struct {
	Strategy strategy.Strategy `json:"strategy"`
	Text     string            `json:"text"`
	Stages   []int             `json:"stages"`
	Step     float64           `json:"step_seconds"`
	Low      float64           `json:"low_seconds"`
	High     float64           `json:"high_seconds"`
	Tokens   float64           `json:"tokens_per_second"`
	MFU      float64           `json:"mfu"`
	Parts    plan.Parts        `json:"parts_seconds"`
	Memory   plan.Memory       `json:"memory_bytes"`
	Why      string            `json:"why,omitempty"`
}

// planJSONWhatIf is a --what-if question with its answer.
type planJSONWhatIf struct {
	Text string       `json:"text"`
	Plan *planJSONRow `json:"plan,omitempty"`
	Why  string       `json:"why"`
}

func (r *planReport) row(p search.Plan, why string) planJSONRow {
	e := p.Estimate
	return planJSONRow{
		Strategy: p.Strategy, Text: p.Strategy.Line(), Stages: planfile.Stages(r.workload.Model.Layers,
			p.Strategy), Step: e.Step, Low: e.Low,
		High: e.High, Tokens: r.workload.Tokens() / e.Step, MFU: e.MFU, Parts: e.Parts, Memory: e.Memory, Why: why,
	}
}

// writeJSON prints the whole report as JSON.
func (r *planReport) writeJSON(w io.Writer) error {
	a := r.answer
	out := planJSON{
		Workload: r.workload, Cluster: r.cluster.String(), Devices: r.cluster.Size(), Idle: a.Idle, Bound: a.Bound,
		Gap:   a.Gap(),
		Cells: a.Cells, Visited: a.Visited, Priced: a.Priced, Seconds: r.took.Seconds(),
	}
	for i, p := range a.Plans {
		why := ""
		if i > 0 {
			why = search.Why(a.Plans[0], p)
		}
		out.Plans = append(out.Plans, r.row(p, why))
	}
	for _, q := range r.asked {
		x := planJSONWhatIf{Text: q.text, Why: q.why}
		if q.plan != nil {
			p := r.row(*q.plan, "")
			x.Plan = &p
		}
		out.WhatIf = append(out.WhatIf, x)
	}
	if a.Mapping != nil {
		out.Mapping = a.Mapping.Devices
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
