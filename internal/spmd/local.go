package spmd

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Local returns the program of one device. Devices whose programs are equal share it.
func (p *Program) Local(device int) (*ir.Func, error) {
	defer fault.Pass("partition", p.f)
	if !slices.ContainsFunc(p.meshes, func(m *mesh.Mesh) bool { return m.Contains(device) }) {
		return nil, fmt.Errorf("partition %s: no mesh has device %d: they are %v", p.f.Name(), device, p.meshes)
	}
	key, err := p.signature(device)
	if err != nil {
		return nil, err
	}
	if f := p.locals[key]; f != nil {
		return f, nil
	}
	f, err := p.build(device)
	if err == nil {
		p.locals[key] = f
	}
	return f, err
}

// Classes groups the devices with equal programs, each group in order, the groups in the order of their first
// devices.
func (p *Program) Classes() ([][]int, error) {
	var classes [][]int
	index := map[string]int{}
	for _, id := range p.Devices() {
		key, err := p.signature(id)
		if err != nil {
			return nil, err
		}
		i, ok := index[key]
		if !ok {
			i = len(classes)
			index[key], classes = i, append(classes, nil)
		}
		classes[i] = append(classes[i], id)
	}
	return classes, nil
}

// feature is something in which the programs of devices may differ.
type feature interface {
	// on returns the mesh that it concerns, at a short text that describes it for one of its devices.
	on() *mesh.Mesh
	at(v view) (string, error)
}

// member is whether a device is in a mesh at all.
type member struct{ m *mesh.Mesh }

func (x member) on() *mesh.Mesh          { return x.m }
func (x member) at(view) (string, error) { return "in", nil }

// size is the size of a shard if shards are uneven.
type size struct {
	m    *mesh.Mesh
	n    int
	axes mesh.Axes
}

func (s size) on() *mesh.Mesh { return s.m }

func (s size) at(v view) (string, error) { return strconv.Itoa(v.part(s.n, s.axes)), nil }

// attributes is an op whose attributes may depend on the device's position.
type attributes struct {
	d    *decision
	axes mesh.Axes
	// seen is by position along the axes.
	seen map[string]string
}

func (a attributes) on() *mesh.Mesh { return a.d.mesh }

func (a attributes) at(v view) (string, error) {
	var key []byte
	for _, s := range a.axes {
		key = append(strconv.AppendInt(key, int64(v.position(s)), 10), '.')
	}
	if text, ok := a.seen[string(key)]; ok {
		return text, nil
	}
	text, err := a.d.text(v)
	if err != nil {
		return "", err
	}
	a.seen[string(key)] = text
	return text, nil
}

// text returns the op that a device runs, as text.
func (d *decision) text(v view) (string, error) {
	if d.cooperative != nil {
		f, err := d.program(v.device)
		if err != nil {
			return "", err
		}
		return f.String(), nil
	}
	local, err := d.local(v)
	if err != nil {
		return "", err
	}
	return ir.FormatOp(local), nil
}

// place returns a device's share.
func (d *decision) place(device int) (*op.Place, error) {
	return op.NewPlace(d.rule, d.mesh, d.assign, device, d.in, d.out)
}

// local returns the op that a device runs alone.
func (d *decision) local(v view) (op.Op, error) {
	at, err := d.place(v.device)
	if err != nil {
		return nil, err
	}
	return op.Localize(d.op, at)
}

// signature returns a text that is equal for devices with equal programs.
func (p *Program) signature(device int) (string, error) {
	var key []byte
	views := make([]*view, len(p.meshes))
	for i, m := range p.meshes {
		if v, ok := newView(m, device); ok {
			views[i] = &v
		}
	}
	for _, f := range p.features {
		if v := views[slices.Index(p.meshes, f.on())]; v != nil {
			text, err := f.at(*v)
			if err != nil {
				return "", err
			}
			key = append(key, text...)
		}
		key = append(key, ';')
	}
	return string(key), nil
}

// findFeatures collects what programs may differ in: meshes, the sizes of uneven shards, and the attributes
// of ops with offsets.
func (p *planner) findFeatures() []feature {
	f := &finder{seen: map[string]bool{}}
	for i, m := range p.meshes {
		if i > 0 || len(p.meshes) > 1 {
			f.list = append(f.list, member{m})
		}
	}
	for _, v := range p.program.f.Params() {
		f.spec(p.layouts[v.ID()].Mesh, v.Shape(), p.layouts[v.ID()].Spec)
	}
	for _, d := range p.order {
		for i, t := range d.in {
			f.spec(d.mesh, t.Shape, d.need[i])
		}
		for i, t := range d.out {
			f.spec(d.mesh, t.Shape, d.give[i])
		}
		if _, ok := d.op.(op.Localizer); ok || d.cooperative != nil {
			f.list = append(f.list, attributes{d: d, axes: slices.Concat(d.assign...), seen: map[string]string{}})
		}
	}
	for _, s := range p.program.steps {
		for i, c := range s.before {
			f.convert(s.node.In()[i].Shape(), c)
		}
		for i, c := range s.after {
			f.convert(s.node.Out()[i].Shape(), c)
		}
	}
	for i, c := range p.program.results {
		f.convert(p.program.f.Results()[i].Shape(), c)
	}
	return f.list
}

type finder struct {
	list []feature
	seen map[string]bool
}

func (f *finder) convert(shape []int, c convert) {
	for _, l := range c.legs {
		for _, m := range l.moves {
			f.spec(l.from, shape, m.Before)
			f.spec(l.to, shape, m.After)
		}
	}
}

func (f *finder) spec(m *mesh.Mesh, shape []int, s mesh.Spec) {
	for d, n := range shape {
		if len(s.Dims[d]) == 0 || n%m.Count(s.Dims[d]) == 0 {
			continue
		}
		key := strconv.Itoa(n) + s.Dims[d].String() + m.String()
		if !f.seen[key] {
			f.seen[key] = true
			f.list = append(f.list, size{m, n, s.Dims[d]})
		}
	}
}
