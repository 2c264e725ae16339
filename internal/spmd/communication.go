package spmd

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Communication describes one move of data between devices, for reports.
type Communication struct {
	// Line is the source line that it belongs to, Op the op there.
	Line string `json:"line"`
	Op   string `json:"op"`
	// Kind is the collective: all_reduce, all_gather …; Axes holds the mesh axes along which it runs.
	Kind string `json:"kind"`
	Axes string `json:"axes"`
	// Tensor is the type of what moves, with its name if it is a parameter; From and To are its layouts.
	Tensor string `json:"tensor"`
	From   string `json:"from"`
	To     string `json:"to"`
	// Bytes is what the busiest device sends, Seconds the predicted time.
	Bytes   float64 `json:"bytes"`
	Seconds float64 `json:"seconds"`
	// Reason explains who needs it, Asked whether a user requested it.
	Reason string `json:"reason"`
	Asked  bool   `json:"asked"`
	// Count is how often it occurs, because layers repeat.
	Count int `json:"count"`
}

// String returns the communication in one line.
func (c Communication) String() string {
	return fmt.Sprintf("%s: %s: %s of %s over %s: %s", c.Line, c.Op, c.Kind, c.Tensor, c.Axes, c.Reason)
}

// Communications returns Inserted as Communication values, in program order.
func (p *Program) Communications() []Communication {
	names, types := map[int]string{}, make([]ir.Type, p.f.NumValues())
	for _, v := range p.f.Params() {
		names[v.ID()], types[v.ID()] = v.Name(), v.Type()
	}
	for _, n := range p.f.Nodes() {
		for _, v := range n.Out() {
			types[v.ID()] = v.Type()
		}
	}
	var list []Communication
	for _, x := range p.inserted {
		list = append(list, communication(x, types[x.Value], names[x.Value]))
	}
	return list
}

func communication(x Inserted, t ir.Type, name string) Communication {
	c := Communication{
		Line: string(x.Pos), Op: x.Op, Kind: x.Move.Kind.String(), Axes: x.Move.Axes.String(),
		Tensor: t.String(), From: x.Move.Before.String(), To: x.Move.After.String(),
		Bytes: x.Move.Cost.Bytes, Seconds: x.Move.Cost.Time, Reason: x.Reason, Asked: x.Asked, Count: 1,
	}
	if c.Line == "" {
		c.Line = "-"
	}
	if name != "" {
		c.Tensor += " " + name
	}
	return c
}

// Value returns the layout of a value of the program, by its ID.
func (p *Program) Value(id int) op.Layout { return p.layouts[id] }
