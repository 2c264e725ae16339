package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// Eval runs the program for every position of the grid on this device, one after the other.
func (o localMap) Eval(env *Env, in, out []array.Array) {
	types := make([]Type, len(in))
	for i, a := range in {
		types[i] = ir.TypeOf(a)
	}
	f, err := o.program(types)
	if err != nil {
		panic("op: local_map of a program that does not read: " + err.Error())
	}
	ins, outs := o.layouts(in, o.In), o.layouts(out, o.Out)
	for _, a := range out {
		clear(a.Bytes())
	}
	m, _ := mesh.Parse(o.Mesh) // the layouts have read it
	for _, device := range m.Devices() {
		args := make([]array.Array, len(in))
		for i, a := range in {
			box, _ := ins[i].Box(device)
			args[i] = array.New(a.DType(), box.Size...)
			moveStrided(env, box.Size, whole(args[i]), boxOf(a, box))
		}
		for i, part := range evalFunc(env, f, args) {
			box, _ := outs[i].Box(device)
			addBox(env, out[i], box, part, len(outs[i].Spec().Partial) > 0)
		}
	}
}

func (o localMap) layouts(as []array.Array, specs []string) []*mesh.Layout {
	ls := make([]*mesh.Layout, len(as))
	for i, a := range as {
		l, err := o.layout(i, specs, a.Shape())
		if err != nil {
			panic("op: local_map: " + err.Error())
		}
		ls[i] = l
	}
	return ls
}

// boxOf returns the iteration over a box of an array.
func boxOf(a array.Array, b mesh.Box) strided {
	w := whole(a)
	for d, s := range b.Start {
		w.offset += s * w.strides[d]
	}
	return w
}

// addBox writes a shard to its box; terms of a sum are added.
func addBox(env *Env, dst array.Array, b mesh.Box, part array.Array, sum bool) {
	if sum {
		old := array.New(part.DType(), part.Shape()...)
		moveStrided(env, b.Size, whole(old), boxOf(dst, b))
		total := array.New(part.DType(), part.Shape()...)
		float(total,
			func() { kernel.Add(array.Data[float32](total), array.Data[float32](old), array.Data[float32](part)) },
			func() { kernel.Add(array.Data[float64](total), array.Data[float64](old), array.Data[float64](part)) })
		part = total
	}
	moveStrided(env, b.Size, boxOf(dst, b), whole(part))
}

// evalFunc runs a program op by op.
func evalFunc(env *Env, f *ir.Func, args []array.Array) []array.Array {
	values := make([]array.Array, f.NumValues())
	for i, p := range f.Params() {
		values[p.ID()] = args[i]
	}
	for _, n := range f.Nodes() {
		in, out := make([]array.Array, len(n.In())), make([]array.Array, len(n.Out()))
		for i, v := range n.In() {
			in[i] = values[v.ID()]
		}
		for i, v := range n.Out() {
			out[i] = array.New(v.DType(), v.Shape()...)
			values[v.ID()] = out[i]
		}
		Run(env, n.Op().(Op), in, out)
	}
	results := make([]array.Array, len(f.Results()))
	for i, v := range f.Results() {
		results[i] = values[v.ID()]
	}
	return results
}
