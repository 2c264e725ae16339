package step

import (
	"fmt"

	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/spmd"
)

// Exchanges returns the communication of one device of a rank for a stage in a step, in the order of first
// occurrence: that of its parts, and its messages to and from other stages. Stage -1 is the update. Count is
// how often each occurs.
func (p *Plan) Exchanges(stage int) []spmd.Communication {
	if p.Whole {
		return p.wholeExchanges(stage)
	}
	if stage < 0 {
		return p.calls(p.Parts[len(p.Parts)-1], 1)
	}
	var list []spmd.Communication
	counts, seen := map[*Part]int{}, map[*Part]bool{}
	actions := p.Schedule.Ranks[p.Stages[stage].Rank]
	for _, a := range actions {
		if x := p.PartOf(a); x != nil {
			counts[x]++
		}
	}
	messages := p.messages(stage)
	for _, a := range actions {
		if a.Stage != stage {
			continue
		}
		if x := p.PartOf(a); x != nil && !seen[x] {
			seen[x] = true
			list = append(list, p.calls(x, counts[x])...)
		}
		if !a.Kind.Computes() && a.Micro == 0 {
			list = append(list, messages[a.Kind]...)
		}
	}
	return list
}

// calls returns the communication of a part that is called the given number of times.
func (p *Plan) calls(x *Part, times int) []spmd.Communication {
	var list []spmd.Communication
	for _, c := range x.Communications {
		c.Count = times
		list = append(list, c)
	}
	return list
}

// messages returns the messages of a stage by kind, of the first device of its rank.
func (p *Plan) messages(stage int) map[pipeline.Kind][]spmd.Communication {
	first := p.Meshes[p.Stages[stage].Rank].Devices()[0]
	byKind, at := map[pipeline.Kind][]spmd.Communication{}, map[spmd.Communication]int{}
	for _, in := range p.tapes[first].code {
		if in.kind == call || in.action.Stage != stage {
			continue
		}
		c := p.message(first, &in)
		k := in.action.Kind
		if i, ok := at[c]; ok {
			byKind[k][i].Count++
			continue
		}
		at[c] = len(byKind[k])
		byKind[k] = append(byKind[k], c)
	}
	return byKind
}

// message describes one end of a message, for reports.
func (p *Plan) message(device int, in *instruction) spmd.Communication {
	what := "activations"
	if k := in.action.Kind; k == pipeline.SendBackward || k == pipeline.RecvBackward {
		what = "gradients"
	}
	here, there := fmt.Sprint("stage ", in.action.Stage), fmt.Sprint("stage ", in.action.Peer())
	c := spmd.Communication{Line: "-", Op: "pipeline", Kind: "send", From: here, To: there, Asked: true,
		Count:  1,
		Reason: fmt.Sprintf("%s of a micro-batch to %s, device %d to %d", what, there, device, in.peer)}
	b := 0
	if in.kind == send {
		b = in.args[0]
	} else {
		b, c.Kind, c.From, c.To = in.out[0], "receive", there, here
		c.Reason = fmt.Sprintf("%s of a micro-batch from %s, device %d to %d", what, there, in.peer, device)
	}
	t := p.tapes[device].buffers[b].t
	c.Tensor, c.Bytes = t.String(), float64(t.Bytes())
	c.Seconds = spmd.Prices{}.Message(c.Bytes)
	return c
}
