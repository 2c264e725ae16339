package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Layout is the layout of a tensor: a Spec on a mesh.
type Layout struct {
	Mesh *mesh.Mesh
	Spec mesh.Spec
}

// LayoutOf returns the layout of an eager tensor, and whether it is on a mesh at all.
func LayoutOf(x *Tensor) (Layout, bool) {
	if s, ok := x.Store().(interface{ TensorLayout() Layout }); ok {
		return s.TensorLayout(), true
	}
	return Layout{}, false
}

// LaidAt returns the source line that put an eager tensor on its mesh; empty if it is not known.
func LaidAt(x *Tensor) ir.Pos {
	if s, ok := x.Store().(interface{ LaidAt() ir.Pos }); ok {
		return s.LaidAt()
	}
	return ""
}

// Transfer changes the layout of a tensor, on the same mesh or between meshes, with point-to-point messages:
// each device receives the elements that it lacks, once. A device outside the first mesh holds an array
// without elements, and outside the second it gets one. own is the shape of the device's new shard.
func Transfer(x *Tensor, shape []int, from, to Layout, own []int) *Tensor {
	return apply1(transfer{Shape: shape, FromMesh: from.Mesh.String(), From: from.Spec.String(),
		ToMesh: to.Mesh.String(), To: to.Spec.String(), Own: own}, x)
}

type transfer struct {
	collective
	// Shape is that of the whole tensor.
	Shape                      []int
	FromMesh, From, ToMesh, To string
	// Own is the shape of the device's shard of the result.
	Own []int
}

func (transfer) Name() string { return "transfer" }

func (transfer) NoGradient() string {
	return "messages between meshes are differentiated in the program of the whole tensors"
}

func (transfer) VJP(in, _, _ []*Tensor) []*Tensor { return make([]*Tensor, len(in)) }

// Over returns the first mesh and all its axes.
func (o transfer) Over() (string, string) {
	m, err := mesh.Parse(o.FromMesh)
	if err != nil {
		return o.FromMesh, "_"
	}
	return o.FromMesh, m.Free(nil).String()
}

func (o transfer) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 || len(in[0].Shape) != len(o.Shape) || len(o.Own) != len(o.Shape) {
		return nil, fmt.Errorf("want a part of a tensor of shape %v for one of shape %v: got %v", o.Shape, o.Own,
			in)
	}
	if _, _, err := o.layouts(); err != nil {
		return nil, err
	}
	return []Type{{DType: in[0].DType, Shape: o.Own}}, nil
}

func (o transfer) layouts() (from, to *mesh.Layout, err error) {
	if from, err = layoutOf(o.FromMesh, o.From, o.Shape); err != nil {
		return nil, nil, err
	}
	to, err = layoutOf(o.ToMesh, o.To, o.Shape)
	return from, to, err
}

func layoutOf(meshText, specText string, shape []int) (*mesh.Layout, error) {
	m, err := mesh.Parse(meshText)
	if err != nil {
		return nil, err
	}
	s, err := mesh.ParseSpec(specText)
	if err != nil {
		return nil, err
	}
	return s.Layout(m, shape)
}

// Messenger is implemented by collectives that consist of point-to-point messages.
type Messenger interface {
	// Messages returns the devices that a device sends to and those that it receives from, in order.
	Messages(device int) (to, from []int, err error)
}

// Messages returns the devices that a device sends to and those that it receives from.
func (o transfer) Messages(device int) (to, from []int, err error) {
	source, target, err := o.layouts()
	if err != nil {
		return nil, nil, err
	}
	moves, err := mesh.Intersect(source, target)
	for _, m := range moves {
		switch {
		case m.Local():
		case m.From == device:
			to = append(to, m.To)
		case m.To == device:
			from = append(from, m.From)
		}
	}
	return to, from, err
}

// Work assumes that the whole result is received from others, which is an upper bound.
func (o transfer) Work(in, out []Type) Work {
	w := Work{Bytes: moved(in, out)}
	if o.FromMesh != o.ToMesh || o.From != o.To {
		w.Wire = float64(out[0].Bytes())
	}
	return w
}

func (o transfer) Eval(env *Env, in, out []array.Array) {
	from, to, err := o.layouts()
	must(o, err)
	moves, err := mesh.Intersect(from, to)
	must(o, err)
	t := &transferring{o: o, env: env, in: in[0], out: out[0], from: from, to: to}
	if env.Comm != nil {
		t.id = env.Comm.ID()
	} else {
		t.id = from.Mesh().Devices()[0]
	}
	for i, m := range moves {
		if m.From == t.id || m.To == t.id {
			t.begin(i, m)
		}
	}
	t.end()
}

// transferring is the state of one device in a transfer.
type transferring struct {
	o        transfer
	env      *Env
	id       int
	in, out  array.Array
	from, to *mesh.Layout
	group    *comm.Group
	sends    []*comm.Pending
	receives []*comm.Pending
	boxes    []mesh.Box
}

// begin starts a message; its number is its tag.
func (t *transferring) begin(tag int, m mesh.Transfer) {
	var part array.Array
	if m.From == t.id {
		box, _ := t.from.Box(t.id)
		part = array.New(t.in.DType(), m.Box.Size...)
		moveStrided(t.env, m.Box.Size, whole(part), within(t.in, m.Box.Within(box)))
	}
	if m.Local() {
		t.place(m.Box, part)
		return
	}
	if t.group == nil {
		t.group = t.env.join(t.o, t.everyone)
	}
	if m.From == t.id {
		t.sends = append(t.sends, t.group.StartSend(part, slices.Index(t.group.Ranks(), m.To), tag))
		return
	}
	into := array.New(t.in.DType(), m.Box.Size...)
	t.receives = append(t.receives, t.group.StartRecv(into, slices.Index(t.group.Ranks(), m.From), tag))
	t.boxes = append(t.boxes, m.Box)
}

// everyone returns the devices of both meshes, in order.
func (t *transferring) everyone(int) ([]int, error) {
	all := append(t.from.Mesh().Devices(), t.to.Mesh().Devices()...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (t *transferring) place(box mesh.Box, part array.Array) {
	mine, _ := t.to.Box(t.id)
	moveStrided(t.env, box.Size, within(t.out, box.Within(mine)), whole(part))
}

// end waits for all messages.
func (t *transferring) end() {
	for i, p := range t.receives {
		part, err := p.Wait()
		must(t.o, err)
		t.place(t.boxes[i], part)
	}
	for _, p := range t.sends {
		_, err := p.Wait()
		must(t.o, err)
	}
}

// within returns the iteration over a box of an array.
func within(a array.Array, b mesh.Box) strided {
	s := whole(a)
	for d, start := range b.Start {
		s.offset += start * s.strides[d]
	}
	return s
}

// Emit supports only transfers that move nothing, because messages between meshes are exchanged between
// programs, not within one.
func (o transfer) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	from, to, err := o.layouts()
	must(o, err)
	moves, err := mesh.Intersect(from, to)
	must(o, err)
	for _, m := range moves {
		if !m.Local() || !in[0].Shape.Equal(out[0].Shape) {
			return w.Unsupported("transfer between devices", hloTypes(out)...)
		}
	}
	return in
}

func (transfer) Samples() []Sample {
	return []Sample{{Op: transfer{Shape: []int{5, 7}, FromMesh: "x=1", From: "@[x,_]", ToMesh: "y=1",
		To: "@[_,y]", Own: []int{5, 7}}, In: []Arg{f32(5, 7)}}}
}
