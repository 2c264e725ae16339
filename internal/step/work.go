package step

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Load is the work of a device in a step.
type Load struct {
	// Flops counts a multiply-add as two.
	Flops float64
	// Sent is the bytes sent to other devices: by collectives, and by messages between stages.
	Sent float64
	// Collectives and Messages count them.
	Collectives, Messages int
}

// Load returns the work of a device in a step, summed over its tape by the ops' own formulas.
func (p *Plan) Load(device int) Load {
	var l Load
	for _, in := range p.tapes[device].code {
		switch in.kind {
		case send:
			l.Sent += float64(p.tapes[device].buffers[in.args[0]].t.Bytes())
			l.Messages++
		case call:
			l.add(in.exe.Func())
		}
	}
	return l
}

// LoadOf returns the work of one run of a program.
func LoadOf(f *ir.Func) Load {
	var l Load
	l.add(f)
	return l
}

func (l *Load) add(f *ir.Func) {
	types := func(vs []*ir.Value) []ir.Type {
		list := make([]ir.Type, len(vs))
		for i, v := range vs {
			list[i] = v.Type()
		}
		return list
	}
	for _, n := range f.Nodes() {
		o, ok := n.Op().(op.Op)
		if !ok {
			continue
		}
		w := o.Work(types(n.In()), types(n.Out()))
		l.Flops += w.Flops
		l.Sent += w.Wire
		if w.Wire > 0 {
			l.Collectives++
		}
	}
}
