package runtime

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// placedOp is one op on operands of given layouts, ready to run: a program of one node, partitioned like any
// other.
type placedOp struct {
	mesh *mesh.Mesh
	out  []mesh.Spec
	exes map[int]*cpu.Executable
}

// mostPlaced is the most compiled ops that a session keeps: ops whose attributes change from step to step
// must not fill the memory.
const mostPlaced = 4096

// place partitions an op, once for each combination of operand layouts.
func (s *Session) place(o op.Op, m *mesh.Mesh, in []ir.Type, have, out []mesh.Spec) (*placedOp, error) {
	key := placeKey(o, m, in, have, out)
	if p, ok := s.ops[key]; ok {
		return p, nil
	}
	b := ir.NewBuilder(o.Name())
	args := make([]*ir.Value, len(in))
	for i, t := range in {
		args[i] = b.Param("", t)
	}
	f, err := b.Build(b.Apply(o, args)...)
	if err != nil {
		return nil, err
	}
	program, err := spmd.Partition(f, append(append([]mesh.Spec(nil), have...), out...), m, spmd.Config{})
	if err != nil {
		return nil, err
	}
	p, err := s.compile(program, out)
	if err == nil {
		if len(s.ops) >= mostPlaced {
			clear(s.ops)
		}
		s.ops[key] = p
	}
	return p, err
}

// compile compiles the program of every device.
func (s *Session) compile(program *spmd.Program, out []mesh.Spec) (*placedOp, error) {
	m := program.Mesh()
	p := &placedOp{mesh: m, out: out, exes: map[int]*cpu.Executable{}}
	for _, id := range m.Devices() {
		if id >= len(s.threads) {
			return nil, fmt.Errorf("mesh %v: device %d: the world has %d", m, id, len(s.threads))
		}
		if s.threads[id] == nil {
			continue
		}
		local, err := program.Local(id)
		if err != nil {
			return nil, err
		}
		if p.exes[id], err = s.threads[id].Compile(local, cpu.Options{}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func placeKey(o op.Op, m *mesh.Mesh, in []ir.Type, have, out []mesh.Spec) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %v:", ir.FormatOp(o), m)
	for i, t := range in {
		fmt.Fprintf(&b, " %v%v", t, have[i])
	}
	b.WriteString(" ->")
	for _, s := range out {
		fmt.Fprintf(&b, " %v", s)
	}
	return b.String()
}

// move reshards a tensor to a layout.
func (s *Session) move(x *ir.Value, to op.Layout) (*Shards, error) {
	if _, err := to.Spec.Layout(to.Mesh, x.Shape()); err != nil {
		return nil, err
	}
	from, ok := ShardsOf(x)
	if !ok {
		return s.scatter(x.Store().(array.Array), to)
	}
	if from.Mesh.Equal(to.Mesh) {
		return s.moveWithin(x, from, to)
	}
	if len(from.Spec.Partial) > 0 { // unreduced tensors are reduced on their own mesh
		combined, err := s.moveWithin(x, from, op.Layout{Mesh: from.Mesh, Spec: from.Spec.With()})
		if err != nil {
			return nil, err
		}
		from = combined
	}
	moved, err := s.moveAcross(x.Type(), from, op.Layout{Mesh: to.Mesh, Spec: to.Spec.With()})
	if err != nil {
		return nil, err
	}
	return s.moveWithin(x, moved, to) // replicas become unreduced terms if these are wanted
}

func (s *Session) scatter(a array.Array, to op.Layout) (*Shards, error) {
	l, err := to.Spec.Layout(to.Mesh, a.Shape())
	if err != nil {
		return nil, err
	}
	out := &Shards{Layout: to, Parts: map[int]array.Array{}}
	for id, box := range l.Boxes() {
		if id >= s.world.Size() {
			return nil, fmt.Errorf("mesh %v: device %d: the world has %d", to.Mesh, id, s.world.Size())
		}
		if !comm.IsLocal(s.world, id) {
			continue
		}
		if out.Parts[id], err = cutPart(l, a, id, box); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Session) moveWithin(x *ir.Value, from *Shards, to op.Layout) (*Shards, error) {
	if from.Spec.Equal(to.Spec) {
		return from, nil
	}
	p, err := s.place(op.IdentityOp(), from.Mesh, []ir.Type{x.Type()}, []mesh.Spec{from.Spec},
		[]mesh.Spec{to.Spec})
	if err != nil {
		return nil, err
	}
	out, err := s.run(p, []*ir.Value{ir.Leaf(s, x.Type(), from)})
	if err != nil {
		return nil, err
	}
	return out[0].(*Shards), nil
}
