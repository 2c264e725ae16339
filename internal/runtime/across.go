package runtime

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// moveAcross moves each box once from a device that has it: by a copy if both devices are in this process,
// else by a message.
func (s *Session) moveAcross(t ir.Type, from *Shards, to op.Layout) (*Shards, error) {
	source, err := from.layout(t.Shape)
	if err != nil {
		return nil, err
	}
	target, err := to.Spec.Layout(to.Mesh, t.Shape)
	if err != nil {
		return nil, err
	}
	transfers, err := mesh.Intersect(source, target)
	if err != nil {
		return nil, err
	}
	out := &Shards{Layout: to, Parts: map[int]array.Array{}}
	for id, box := range target.Boxes() {
		if id >= s.world.Size() {
			return nil, fmt.Errorf("mesh %v: device %d: the world has %d", to.Mesh, id, s.world.Size())
		}
		if comm.IsLocal(s.world, id) {
			out.Parts[id] = array.New(t.DType, box.Size...)
		}
	}
	var remote []mesh.Transfer
	for _, tr := range transfers {
		if s.world.Owner(tr.From) != s.world.Owner(tr.To) {
			remote = append(remote, tr)
		} else if comm.IsLocal(s.world, tr.To) {
			src, _ := source.Box(tr.From)
			dst, _ := target.Box(tr.To)
			copyBox(out.Parts[tr.To], tr.Box.Within(dst), from.Parts[tr.From], tr.Box.Within(src))
		}
	}
	if len(remote) == 0 {
		return out, nil
	}
	return out, s.send(remote, source, target, from.Parts, out.Parts)
}

// send sends boxes between processes. All processes have the same list.
func (s *Session) send(list []mesh.Transfer, source, target *mesh.Layout, from,
	to map[int]array.Array) error {
	return s.world.Run(context.Background(), func(_ context.Context, c comm.Comm) error {
		world, err := c.Group(nil)
		if err != nil {
			return err
		}
		var sends, receives []message
		for i, tr := range list {
			switch c.ID() {
			case tr.From:
				at, _ := source.Box(tr.From)
				m := newMessage(tr.Box, from[tr.From], at)
				copyBox(m.box, m.whole, m.part, m.within)
				m.Pending = world.StartSend(m.box, tr.To, i)
				sends = append(sends, m)
			case tr.To:
				at, _ := target.Box(tr.To)
				m := newMessage(tr.Box, to[tr.To], at)
				m.Pending = world.StartRecv(m.box, tr.From, i)
				receives = append(receives, m)
			}
		}
		for _, m := range receives {
			if _, err := m.Wait(); err != nil {
				return err
			}
			copyBox(m.part, m.within, m.box, m.whole)
		}
		for _, m := range sends {
			if _, err := m.Wait(); err != nil {
				return err
			}
		}
		return nil
	})
}

// message is a box of a device's shard in flight.
type message struct {
	*comm.Pending
	part, box     array.Array
	within, whole mesh.Box // the box's position in the shard, and in itself
}

func newMessage(b mesh.Box, part array.Array, at mesh.Box) message {
	return message{part: part, box: array.New(part.DType(), b.Size...), within: b.Within(at),
		whole: mesh.Box{Start: make([]int, len(b.Size)), Size: b.Size}}
}
