package step

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// send appends the messages of a stage's results, or of the gradients of its inputs.
func (w *tapeWriter) send(a pipeline.Action) error {
	x := w.section(a.Stage, a.Micro)
	for i, value := range x.sentValues(a.Kind) {
		if err := w.message(send, a, i, x, value); err != nil {
			return err
		}
	}
	return nil
}

func (w *tapeWriter) receive(a pipeline.Action) error {
	x := w.section(a.Stage, a.Micro)
	for i, value := range x.receivedValues(a.Kind) {
		if err := w.message(receive, a, i, x, value); err != nil {
			return err
		}
	}
	return nil
}

// sentValues returns the joint program's values that a send carries, taken those that a receive brings, in
// the same order.
func (x *section) sentValues(k pipeline.Kind) []int {
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

func (x *section) receivedValues(k pipeline.Kind) []int {
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

// end returns the layout of the i-th value that a stage sends or receives.
func (x *section) end(k pipeline.Kind, i int) op.Layout {
	id := 0
	switch k {
	case pipeline.SendForward:
		id = x.Joint.Results()[i].ID()
	case pipeline.RecvForward:
		id = x.inParam(i)
	case pipeline.RecvBackward:
		id = x.receivedValues(k)[i]
	default: // a gradient returns in the layout of its value
		grads := x.inGrads()
		for j := range x.In {
			if _, ok := grads[j]; !ok {
				continue
			}
			if i == 0 {
				id = x.inParam(j)
				break
			}
			i--
		}
	}
	return op.Layout{Mesh: x.meshes[id], Spec: x.specs[id].With()}
}

// otherEnd is the kind of action that a message meets.
var otherEnd = map[pipeline.Kind]pipeline.Kind{
	pipeline.SendForward: pipeline.RecvForward, pipeline.RecvForward: pipeline.SendForward,
	pipeline.SendBackward: pipeline.RecvBackward, pipeline.RecvBackward: pipeline.SendBackward,
}

// message appends the device's ends of the messages that bring a value from one rank to another.
func (w *tapeWriter) message(kind instructionKind, a pipeline.Action, i int, x *section, value int) error {
	here := x.end(a.Kind, i)
	there := w.section(a.Peer(), a.Micro).end(otherEnd[a.Kind], i)
	t, has, err := w.local(x.types[value], here.Mesh, here.Spec)
	if err != nil || !has {
		return err
	}
	if sameLayout(here, there) {
		place, _ := here.Mesh.Index(w.t.device)
		b := w.use(w.buffer(w.key(x, a.Micro, value), t))
		w.end(instruction{action: a, kind: kind, peer: there.Mesh.Devices()[place], tag: w.tag(a, i), arena: -1}, b)
		return nil
	}
	return w.pieces(kind, a, i, x, value, here, there)
}

// sameLayout reports whether a tensor has the same layout on two meshes of one shape: devices at the same
// position hold the same.
func sameLayout(a, b op.Layout) bool {
	return a.Spec.Equal(b.Spec) && slices.Equal(a.Mesh.Axes(), b.Mesh.Axes())
}

// pieces appends the messages between layouts that differ: each device gets what it lacks from one that has
// it, once.
func (w *tapeWriter) pieces(kind instructionKind, a pipeline.Action, i int, x *section, value int, here,
	there op.Layout) error {
	shape := x.types[value].Shape
	own, err := here.Spec.Layout(here.Mesh, shape)
	if err != nil {
		return err
	}
	other, err := there.Spec.Layout(there.Mesh, shape)
	if err != nil {
		return err
	}
	from, to := own, other
	if kind == receive {
		from, to = other, own
	}
	moves, err := mesh.Intersect(from, to)
	if err != nil {
		return err
	}
	box, _ := own.Box(w.t.device)
	t := ir.Type{DType: x.types[value].DType, Shape: box.Size}
	for _, m := range moves {
		me, peer := m.From, m.To
		if kind == receive {
			me, peer = m.To, m.From
		}
		if me != w.t.device {
			continue
		}
		in := instruction{action: a, kind: kind, peer: peer, tag: w.tag(a, i), arena: -1}
		b := w.use(w.buffer(w.key(x, a.Micro, value), t))
		if !m.Box.Equal(box) {
			in.piece = &piece{buffer: b, start: m.Box.Within(box).Start}
			b = w.use(w.buffer(bufferKey{kind: scratch, micro: 1, value: len(w.t.code)},
				ir.Type{DType: t.DType, Shape: m.Box.Size}))
		}
		w.end(in, b)
	}
	return nil
}

// end appends one end of a message of a buffer.
func (w *tapeWriter) end(in instruction, buffer int) {
	if in.kind == send {
		in.args = []int{buffer}
	} else {
		in.out = []int{buffer}
	}
	w.t.code = append(w.t.code, in)
}

// tag returns a message's number, the same at both ends.
func (w *tapeWriter) tag(a pipeline.Action, i int) int {
	from, direction := a.Stage, 0
	if a.Kind.Receives() {
		from = a.Peer()
	}
	if a.Kind == pipeline.SendBackward || a.Kind == pipeline.RecvBackward {
		direction = 1
	}
	return ((i*w.b.c.Schedule.Stages+from)*w.b.c.Schedule.Micros+a.Micro)*2 + direction
}

// awaitSends sets until when each sent buffer stays allocated. A forward message has arrived when its
// gradient comes back. Other messages of an action are awaited when the second action after it sends on the
// same route: this costs nothing, because messages are received in order. The last ones are awaited at the
// end.
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

// answered returns the instruction after that which receives the gradient of what instruction i sends
// forward, or the end of the tape if none does.
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
