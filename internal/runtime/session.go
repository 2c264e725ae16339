package runtime

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Session is the scope of eager tensors on the devices of a world. A tensor is plain data, which counts as
// replicated on every device, or is on a mesh. An op on tensors of a mesh infers the shardings, reshards
// operands as needed, and runs on every device at once. Partial sums stay unreduced until an op needs the
// sum.
type Session struct {
	cpu.Modes
	world   comm.World
	host    *cpu.Device
	seq     atomic.Int64
	threads []*cpu.Device // by device; nil for those of other processes
	ops     map[string]*placedOp
}

// NewSession makes a scope on the devices of a world, which the session then owns: Close closes it.
func NewSession(host *cpu.Device, w comm.World) *Session {
	s := &Session{world: w, host: host, ops: map[string]*placedOp{}, threads: make([]*cpu.Device, w.Size())}
	for _, id := range comm.Local(w) {
		s.threads[id] = cpu.NewDevice(cpu.Config{Threads: 1})
	}
	return s
}

// Close stops the devices' threads, and closes the world.
func (s *Session) Close() {
	for _, d := range s.threads {
		if d != nil {
			d.Close()
		}
	}
	s.world.Close()
}

// World returns the devices' world, for its statistics.
func (s *Session) World() comm.World { return s.world }

// local returns the devices of a list that are in this process.
func (s *Session) local(devices []int) []int {
	var list []int
	for _, id := range devices {
		if comm.IsLocal(s.world, id) {
			list = append(list, id)
		}
	}
	return list
}

// Device returns the host's device, which runs ops on tensors without a mesh.
func (s *Session) Device() *cpu.Device { return s.host }

// Shard returns a's data sharded on a mesh, as the store of a tensor.
func (s *Session) Shard(a array.Array, at op.Layout) (*Shards, error) { return s.scatter(a, at) }

// Tensor returns a's data as an eager tensor, shared: a must not be changed afterwards.
func (s *Session) Tensor(a array.Array) *op.Tensor { return ir.Leaf(s, ir.TypeOf(a), a) }

// Sharded returns a tensor of a type from the shards of this process's devices on a mesh.
func (s *Session) Sharded(t ir.Type, layout op.Layout, parts map[int]array.Array) (*op.Tensor, error) {
	l, err := layout.Spec.Layout(layout.Mesh, t.Shape)
	if err != nil {
		return nil, err
	}
	for id, box := range l.Boxes() {
		if id >= s.world.Size() {
			return nil, fmt.Errorf("mesh %v: device %d: the world has %d", layout.Mesh, id, s.world.Size())
		}
		if got := parts[id]; comm.IsLocal(s.world, id) &&
			(!got.IsValid() || got.DType() != t.DType || !got.Shape().Equal(box.Size)) {
			return nil, fmt.Errorf("part of device %d: got %v, want %v%v", id, ir.TypeOf(got), t.DType,
				array.Shape(box.Size))
		}
	}
	return ir.Leaf(s, t, &Shards{Layout: layout, Parts: parts, Line: ir.Caller()}), nil
}

// Read returns the whole array of an eager tensor. For a tensor on a mesh it is a collective of
// processes.
func Read(x *op.Tensor) (array.Array, error) {
	if s, ok := ShardsOf(x); ok && x.Err() == nil {
		l, err := s.layout(x.Shape())
		if err != nil {
			return array.Array{}, err
		}
		return AllGather(context.Background(), x.Scope().(*Session).world, l, x.DType(), s.Parts)
	}
	return cpu.Read(x)
}

// Apply runs o now, on every device of its operands' mesh.
func (s *Session) Apply(o ir.Op, in []*ir.Value) []*ir.Value { return s.Modes.Apply(o, in, s.record) }

// Backward differentiates a tensor of the session: gradients are added to the tracked tensors that y was
// computed from, each in the layout of its tensor.
func (s *Session) Backward(y *ir.Value) error { return s.BackwardOf(y) }

// GradAt returns the gradient g of x in the layout of x; for plain data it is plain.
func (s *Session) GradAt(x, g *ir.Value) *ir.Value {
	at, ok := ShardsOf(g)
	if !ok || g.Err() != nil {
		return g
	}
	if to, ok := ShardsOf(x); ok {
		return op.Reshard(g, at.Layout, op.Layout{Mesh: to.Mesh, Spec: to.Spec.With()})
	}
	return s.Gathered(g)
}

// Gathered returns a tensor as plain data, replicated on every device.
func (s *Session) Gathered(x *ir.Value) *ir.Value {
	if _, ok := ShardsOf(x); !ok || x.Err() != nil {
		return x
	}
	a, err := Read(x)
	if err != nil {
		return ir.Invalid(s, &ir.Error{Pos: ir.Caller(), Op: "gather", Err: err})
	}
	return s.Tensor(a)
}

// record runs an op and records its results' node if an operand is tracked.
func (s *Session) record(o ir.Op, in []*ir.Value) []*ir.Value {
	out, tracked, err := s.apply(o.(op.Op), in)
	if err != nil {
		if _, carried := err.(carriedError); !carried {
			err = &ir.Error{Pos: ir.Caller(), Op: o.Name(), Err: err}
		}
		return ir.InvalidResults(s, o, len(in), err)
	}
	if _, asked := o.(op.Constrainer); asked {
		recordLine(out[0])
	}
	if tracked {
		ir.Record(o, in, out, int(s.seq.Add(1)))
	}
	return out
}

// recordLine records the source line that requested a tensor's layout.
func recordLine(x *ir.Value) {
	if at, ok := ShardsOf(x); ok && at.Line == "" {
		at.Line = ir.Caller()
	}
}

// carriedError is an earlier error, which already names its source line.
type carriedError struct{ error }

func (e carriedError) Unwrap() error { return e.error }

func (s *Session) apply(o op.Op, in []*ir.Value) (out []*ir.Value, tracked bool, err error) {
	types := make([]ir.Type, len(in))
	for i, v := range in {
		switch {
		case v == nil:
			return nil, false, fmt.Errorf("operand %d is nil", i)
		case v.Err() != nil:
			return nil, false, carriedError{v.Err()}
		case v.Store() == nil:
			return nil, false, fmt.Errorf("operand %d, %v, is traced: it has no data", i, v.Type())
		}
		types[i] = v.Type()
		tracked = tracked || v.Tracked() && v.DType().IsFloat()
	}
	outTypes, err := ir.Infer(o, types)
	if err != nil {
		return nil, false, err
	}
	stores, err := s.compute(o, in, types, outTypes)
	if err != nil {
		return nil, false, err
	}
	for i, st := range stores {
		out = append(out, ir.Leaf(s, outTypes[i], st))
	}
	return out, tracked, nil
}

// compute runs an op: on the host if no operand is on a mesh, as a reshard if it is one, else on the
// mesh.
func (s *Session) compute(o op.Op, in []*ir.Value, types, out []ir.Type) ([]any, error) {
	m, err := commonMesh(in)
	if err != nil {
		if _, moves := o.(op.Constrainer); !moves {
			return nil, err
		}
	}
	if c, moves := o.(op.Constrainer); moves {
		to, want, err := c.Constraint()
		if err != nil {
			return nil, err
		}
		moved, err := s.move(in[0], op.Layout{Mesh: to, Spec: want.Spec})
		return []any{moved}, err
	}
	if m == nil {
		return s.onHost(o, in, out)
	}
	have := make([]mesh.Spec, len(in))
	for i, v := range in {
		have[i] = mesh.Whole(len(v.Shape()))
		if sh, ok := ShardsOf(v); ok {
			have[i] = sh.Spec
		}
	}
	step, err := shard.Forward(o, m, types, out, have)
	if err != nil {
		return nil, err
	}
	p, err := s.place(o, m, types, have, step.Out)
	if err != nil {
		return nil, err
	}
	return s.run(p, in)
}

// commonMesh returns the mesh of the operands that are on one; two different ones are an error.
func commonMesh(in []*ir.Value) (*mesh.Mesh, error) {
	var m *mesh.Mesh
	for i, v := range in {
		sh, ok := ShardsOf(v)
		if !ok {
			continue
		}
		if m != nil && !m.Equal(sh.Mesh) {
			return nil, fmt.Errorf("operand %d is on mesh %v, another on %v: reshard one of them", i, sh.Mesh, m)
		}
		m = sh.Mesh
	}
	return m, nil
}

func (s *Session) onHost(o op.Op, in []*ir.Value, out []ir.Type) ([]any, error) {
	results, err := s.host.Compute(o, plainArrays(in), out)
	return plainStores(results), err
}

func plainArrays(in []*ir.Value) []array.Array {
	arrays := make([]array.Array, len(in))
	for i, v := range in {
		arrays[i] = v.Store().(array.Array)
	}
	return arrays
}

func plainStores(arrays []array.Array) []any {
	stores := make([]any, len(arrays))
	for i, a := range arrays {
		stores[i] = a
	}
	return stores
}

// run runs a placed op on the operands' shards.
func (s *Session) run(p *placedOp, in []*ir.Value) ([]any, error) {
	results := make([][]array.Array, s.world.Size())
	err := s.world.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
		e := p.exes[r.ID()]
		if e == nil {
			return nil
		}
		args := make([]array.Array, len(in))
		for i, v := range in {
			args[i] = partOf(v, r.ID())
		}
		out, err := e.RunIn(r, args)
		results[r.ID()] = out
		return err
	})
	if err != nil {
		return nil, err
	}
	stores := make([]any, len(p.out))
	for i, spec := range p.out {
		sh := &Shards{Layout: op.Layout{Mesh: p.mesh, Spec: spec}, Parts: map[int]array.Array{}}
		for _, id := range s.local(p.mesh.Devices()) {
			sh.Parts[id] = results[id][i]
		}
		stores[i] = sh
	}
	return stores, nil
}

// partOf returns a device's shard of a tensor; plain data is whole everywhere.
func partOf(v *ir.Value, device int) array.Array {
	if sh, ok := ShardsOf(v); ok {
		return sh.Parts[device]
	}
	return v.Store().(array.Array)
}
