package nn

import (
	"fmt"
	"slices"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/mesh"
)

// drawnBytes is the approximate number of bytes of an initial value that are drawn at a time.
const drawnBytes = 1 << 20

// arenas holds memory of finished draws for reuse.
var arenas sync.Pool

// Drawn reports whether Draw can compute the parameter's initial value.
func (p *Param) Drawn() bool { return p.first != nil }

// Draw computes a box of the parameter's initial value, in an array of the box's size and the parameter's
// dtype. The numbers are those of a model created with a scope. It works on a few rows at a time, so the rest
// of the parameter takes no memory.
func (p *Param) Draw(d *cpu.Device, box mesh.Box, dst array.Array) error {
	if !p.Drawn() {
		return fmt.Errorf("parameter %q: no initializer says what it begins with", p.Name)
	}
	if len(box.Size) == 0 || box.Empty() {
		return p.draw(d, box, dst)
	}
	row := max(1, box.Len()/box.Size[0]*p.Type.DType.Size())
	step := max(1, drawnBytes/row)
	for lo := 0; lo < box.Size[0]; lo += step {
		hi := min(lo+step, box.Size[0])
		part := mesh.Box{Start: slices.Clone(box.Start), Size: slices.Clone(box.Size)}
		part.Start[0], part.Size[0] = box.Start[0]+lo, hi-lo
		if err := p.draw(d, part, dst.Rows(lo, hi)); err != nil {
			return err
		}
	}
	return nil
}

// draw is like Draw in one go.
func (p *Param) draw(d *cpu.Device, box mesh.Box, dst array.Array) error {
	if box.Empty() {
		return nil
	}
	if err := p.compute(d, box, dst); err != nil {
		return fmt.Errorf("parameter %q: %w", p.Name, err)
	}
	return nil
}

// compute runs a program of a box of the initial value or, if its ops cannot be split, slices it from the
// whole.
func (p *Param) compute(d *cpu.Device, box mesh.Box, dst array.Array) error {
	b := ir.NewBuilder(p.Name)
	f, err := b.Build(p.first(b, p.key, p.Type))
	if err != nil {
		return err
	}
	if part, err := stage.Box(f, box); err == nil {
		return into(d, part, dst)
	}
	whole, err := cpu.Read(p.first(d.NewSession(), p.key, p.Type))
	if err == nil {
		array.CopyBox(dst, make([]int, len(box.Size)), whole, box.Start, box.Size)
	}
	return err
}

// into computes a program's result into an array.
func into(d *cpu.Device, f *ir.Func, dst array.Array) error {
	e, err := cpu.NewPlan(f, cpu.Options{})
	if err != nil {
		return err
	}
	arena, _ := arenas.Get().(*[]byte)
	if arena == nil {
		arena = new([]byte)
	}
	if n := e.Memory().Arena; len(*arena) < n {
		*arena = array.New(array.U8, n).Bytes()
	}
	defer arenas.Put(arena)
	return e.RunOver(d, *arena, nil, []array.Array{dst}, nil)
}
