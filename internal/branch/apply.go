package branch

import (
	"cmp"
	"slices"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Apply returns the program with every value on one of two meshes of a device each, and reshards where one
// changes devices: each once, however many nodes read it there. Nodes come in the order in which they begin
// by the schedule, and a value leaves its device as soon as it is made: one that is sent when it is read
// would wait for whatever its device does until then.
func (p *Plan) Apply(f *ir.Func, meshes [2]*mesh.Mesh) (*ir.Func, error) {
	defer fault.Pass("branches", f)
	b := ir.NewBuilder(f.Name())
	w := &writer{meshes: meshes, at: make([][2]*ir.Value, f.NumValues())}
	for i, v := range b.ParamsOf(f) {
		w.at[i][p.home[i]] = op.Constrain(v, meshes[p.home[i]], mesh.Closed(whole(v)))
	}
	for _, e := range p.events(f) {
		n, d := f.Nodes()[e.node], p.device[e.node]
		restore := b.At(n.Pos())
		if e.leaves != nil {
			w.on(e.leaves, 1-d)
			restore()
			continue
		}
		in := make([]*ir.Value, len(n.In()))
		for k, v := range n.In() {
			in[k] = w.on(v, d)
		}
		for k, v := range b.Apply(n.Op(), in) {
			// What a reshard says of its operand would else be all that is known of where it is.
			w.at[n.Out()[k].ID()][d] = op.Constrain(v, meshes[d], mesh.Closed(whole(v)))
		}
		restore()
	}
	var results []*ir.Value
	for _, v := range f.Results() {
		x := w.at[v.ID()][0]
		if x == nil {
			x = w.at[v.ID()][1]
		}
		results = append(results, x)
	}
	return b.Build(results...)
}

// event is a node that begins or, where leaves is set, a value of it that goes to the other device.
type event struct {
	node   int
	leaves *ir.Value
	at     float64
}

// events returns what happens, in order.
func (p *Plan) events(f *ir.Func) []event {
	crosses, from := make([]bool, f.NumValues()), make([]int, f.NumValues())
	for i, n := range f.Nodes() {
		for _, v := range n.In() {
			crosses[v.ID()] = crosses[v.ID()] || p.device[i] != from[v.ID()]
		}
		for _, v := range n.Out() {
			from[v.ID()] = p.device[i]
		}
	}
	var list []event
	for _, i := range p.order {
		list = append(list, event{node: i, at: p.start[i]})
		for _, v := range f.Nodes()[i].Out() {
			if crosses[v.ID()] {
				list = append(list, event{i, v, p.end[i]})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return list
}

// writer is a program that is being written: values by the device that they are on.
type writer struct {
	meshes [2]*mesh.Mesh
	at     [][2]*ir.Value
}

// on returns a value on a device, where it is brought the first time that it is asked for.
func (w *writer) on(v *ir.Value, device int) *ir.Value {
	at := &w.at[v.ID()]
	if at[device] == nil {
		x := at[1-device]
		at[device] = op.Reshard(x, op.Layout{Mesh: w.meshes[1-device], Spec: whole(x)},
			op.Layout{Mesh: w.meshes[device], Spec: whole(x)})
	}
	return at[device]
}

func whole(v *ir.Value) mesh.Spec { return mesh.Whole(len(v.Type().Shape)) }
