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
	peer := w.s.c.Meshes[w.s.c.Schedule.Place[a.Peer()]]
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
	return ((i*w.s.c.Schedule.Stages+from)*w.s.c.Schedule.Micros+a.Micro)*2 + direction
}

// awaitSends lets what is sent live until it has surely arrived. What goes forward has when its gradient
// comes back. Gradients of one action have when those of the second one after it on the same way are sent:
// waiting for them then costs nothing, since messages are taken in order; the last ones have at the end.
func (t *tape) awaitSends() {
	type way struct{ peer, stage int }
	sent := map[way][][]int{} // by action
	for i, in := range t.code {
		if in.kind != send {
			continue
		}
		until := len(t.code)
		if in.action.Kind == pipeline.SendForward {
			until = t.answered(i)
		} else {
			k := way{in.peer, in.action.Stage}
			list := sent[k]
			if n := len(list); n > 0 && t.code[list[n-1][0]].action == in.action {
				list[n-1] = append(list[n-1], i)
			} else {
				sent[k] = append(list, []int{i})
				if n > 1 {
					t.holdAll(list[n-2], i)
				}
			}
		}
		t.hold(i, until)
	}
}

// holdAll keeps the buffers of sends until an instruction.
func (t *tape) holdAll(sends []int, until int) {
	for _, i := range sends {
		t.hold(i, until)
	}
}

// hold keeps the buffer of a send until an instruction.
func (t *tape) hold(i, until int) {
	b := &t.buffers[t.code[i].args[0]]
	if t.code[i].until == 0 || until < t.code[i].until {
		t.code[i].until = until
	}
	b.held = max(b.held, t.code[i].until)
}

// answered is the instruction after that which receives the gradient of what instruction i sends.
func (t *tape) answered(i int) int {
	a := t.code[i].action
	for j := i + 1; j < len(t.code); j++ {
		if b := t.code[j]; b.kind == receive && b.action.Kind == pipeline.RecvBackward &&
			b.action.Stage == a.Stage && b.action.Micro == a.Micro {
			return j + 1
		}
	}
	return len(t.code)
}
