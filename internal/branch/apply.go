package branch

import (
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Apply is the program with every value on one of two meshes of a device each, and reshards where one changes
// devices: each once, however many nodes read it there. Nodes come in the order of the schedule.
func (p *Plan) Apply(f *ir.Func, meshes [2]*mesh.Mesh) (*ir.Func, error) {
	defer fault.Pass("branches", f)
	b := ir.NewBuilder(f.Name())
	w := &writer{meshes: meshes, at: make([][2]*ir.Value, f.NumValues())}
	for i, v := range b.ParamsOf(f) {
		w.at[i][p.home[i]] = op.Constrain(v, meshes[p.home[i]], mesh.Closed(whole(v)))
	}
	for _, i := range p.order {
		n, d := f.Nodes()[i], p.device[i]
		in := make([]*ir.Value, len(n.In()))
		restore := b.At(n.Pos())
		for k, v := range n.In() {
			in[k] = w.on(v, d)
		}
		for k, v := range b.Apply(n.Op(), in) {
			if len(in) == 0 { // nothing else says where it is
				v = op.Constrain(v, meshes[d], mesh.Closed(whole(v)))
			}
			w.at[n.Out()[k].ID()][d] = v
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

// writer is a program that is being written: values by the device that they are on.
type writer struct {
	meshes [2]*mesh.Mesh
	at     [][2]*ir.Value
}

// on is a value on a device, where it is brought the first time that it is asked for.
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
