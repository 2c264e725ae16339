package step

import "github.com/galley-ml/galley/internal/pipeline"

// send appends the messages of a stage's results, or of the gradients of what came in.
func (w *taper) send(a pipeline.Action) error {
	x := w.section(a.Stage, a.Micro)
	for i, value := range x.handed(a.Kind) {
		w.message(send, a, i, x, value)
	}
	return nil
}

func (w *taper) receive(a pipeline.Action) error {
	x := w.section(a.Stage, a.Micro)
	for i, value := range x.taken(a.Kind) {
		w.message(receive, a, i, x, value)
	}
	return nil
}

// handed is the joint program's values that a send carries, taken those that a receive brings, in the same
// order.
func (x *section) handed(k pipeline.Kind) []int {
	var list []int
	if k == pipeline.SendForward {
		for i := range x.Out {
			list = append(list, x.Joint.Results()[i].ID())
		}
		return list
	}
	grads := x.inGrads()
	for j := range x.In {
		if r, ok := grads[j]; ok {
			list = append(list, x.Joint.Results()[r].ID())
		}
	}
	return list
}

func (x *section) taken(k pipeline.Kind) []int {
	var list []int
	if k == pipeline.RecvForward {
		for j := range x.In {
			list = append(list, x.inParam(j))
		}
		return list
	}
	grads := x.outGrads()
	for i := range x.Out {
		if g, ok := grads[i]; ok {
			list = append(list, g)
		}
	}
	return list
}

// message appends one end of a message between devices at the same place of two ranks' meshes.
func (w *taper) message(kind instructionKind, a pipeline.Action, i int, x *section, value int) {
	peer := w.b.c.Meshes[w.b.c.Schedule.Place[a.Peer()]]
	place, _ := w.mesh.Index(w.t.device)
	spec := x.specs[value].With()
	t, _ := w.local(x.types[value], spec)
	b := w.use(w.buffer(w.key(x, a.Micro, value), t))
	in := instruction{action: a, kind: kind, peer: peer.Devices()[place], tag: w.tag(a, i), arena: -1}
	if kind == send {
		in.args = []int{b}
	} else {
		in.out = []int{b}
	}
	w.t.code = append(w.t.code, in)
}

// tag is a message's number: both ends find the same.
func (w *taper) tag(a pipeline.Action, i int) int {
	from, direction := a.Stage, 0
	if a.Kind.Receives() {
		from = a.Peer()
	}
	if a.Kind == pipeline.SendBackward || a.Kind == pipeline.RecvBackward {
		direction = 1
	}
	return ((i*w.b.c.Schedule.Stages+from)*w.b.c.Schedule.Micros+a.Micro)*2 + direction
}

// awaitSends lets what is sent live until it has surely arrived. What goes forward has when its gradient
// comes back. Messages of one action without an answer have when those of the second one after it on the same
// way are sent: waiting for them then costs nothing, since messages are taken in order; the last ones have at
// the end.
func (t *tape) awaitSends() {
	type way struct {
		peer, stage int
		kind        pipeline.Kind
	}
	sent := map[way][][]int{} // by action
	for i, in := range t.code {
		if in.kind != send {
			continue
		}
		until, answered := t.answered(i)
		if t.code[i].until = until; answered {
			continue
		}
		k := way{in.peer, in.action.Stage, in.action.Kind}
		list := sent[k]
		if n := len(list); n > 0 && t.code[list[n-1][0]].action == in.action {
			list[n-1] = append(list[n-1], i)
		} else {
			sent[k] = append(list, []int{i})
			if n > 1 {
				for _, before := range list[n-2] {
					t.code[before].until = i
				}
			}
		}
	}
	for _, in := range t.code {
		if in.kind == send {
			b := &t.buffers[in.args[0]]
			b.held = max(b.held, in.until)
		}
	}
}

// answered is the instruction after that which receives the gradient of what instruction i sends forward, or
// the end of the tape if none does.
func (t *tape) answered(i int) (int, bool) {
	a := t.code[i].action
	if a.Kind != pipeline.SendForward {
		return len(t.code), false
	}
	for j := i + 1; j < len(t.code); j++ {
		if b := t.code[j]; b.kind == receive && b.action.Kind == pipeline.RecvBackward &&
			b.action.Stage == a.Stage && b.action.Micro == a.Micro {
			return j + 1, true
		}
	}
	return len(t.code), false
}
