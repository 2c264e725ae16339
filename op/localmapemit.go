package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Emit writes the program once for every position of the grid on this device.
func (o localMap) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	types := make([]Type, len(in))
	for i, r := range in {
		types[i] = Type{DType: r.DType, Shape: r.Shape}
	}
	f, err := o.program(types)
	if err != nil {
		panic("op: local_map of a program that does not read: " + err.Error())
	}
	wholes := make([]hlo.Ref, len(out))
	for i, t := range out {
		wholes[i] = w.Constant(hloType(t), 0)
	}
	m, _ := mesh.Parse(o.Mesh) // program has read it
	for _, device := range m.Devices() {
		parts := make([]hlo.Ref, len(in))
		for i, x := range in {
			parts[i] = emitBox(w, x, o.box(i, o.In, x.Shape, device))
		}
		for i, part := range EmitFunc(w, f, parts) {
			box := o.box(i, o.Out, out[i].Shape, device)
			if s, _ := mesh.ParseSpec(o.Out[i]); len(s.Partial) > 0 {
				part = w.Op("add", "", part.Type, emitBox(w, wholes[i], box), part)
			}
			wholes[i] = emitPutBox(w, wholes[i], part, box)
		}
	}
	return wholes
}

// box returns the box that a device has of tensor i of a list of Specs.
func (o localMap) box(i int, specs []string, shape array.Shape, device int) mesh.Box {
	l, err := o.layout(i, specs, shape)
	if err != nil {
		panic("op: local_map: " + err.Error())
	}
	box, _ := l.Box(device)
	return box
}

// emitBox slices a box.
func emitBox(w *hlo.Writer, x hlo.Ref, b mesh.Box) hlo.Ref {
	end := make([]int, len(b.Start))
	for d := range end {
		end[d] = b.Start[d] + b.Size[d]
	}
	return emitSlice(w, x, b.Start, end, ones(len(end)), Type{DType: x.DType, Shape: b.Size})
}

// emitPutBox returns x with a box of it replaced.
func emitPutBox(w *hlo.Writer, x, part hlo.Ref, b mesh.Box) hlo.Ref {
	operands := []hlo.Ref{x, part}
	for _, s := range b.Start {
		operands = append(operands, w.Constant(hlo.Type{DType: array.I32}, float64(s)))
	}
	return w.Op("dynamic_update_slice", "", x.Type, operands...)
}
