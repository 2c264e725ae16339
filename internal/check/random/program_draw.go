package random

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// drawer draws a program; it traces it at the same time, to know types and which ops accept them.
type drawer struct {
	*Annotated
	r       *rand.Rand
	b       *ir.Builder
	values  []*op.Tensor
	weights []*op.Tensor
	// on holds the mesh of each value, -1 for none; cur is the current mesh of the program.
	on  []int
	cur int
}

// DrawAnnotated returns the program for a seed.
func DrawAnnotated(seed uint64) *Annotated {
	d := &drawer{Annotated: &Annotated{Seed: seed}, r: rand.New(rand.NewPCG(23, seed)), b: ir.NewBuilder("draw")}
	d.Devices = 1 + d.r.IntN(8)
	d.meshes()
	d.inputs()
	d.try(instr{Op: "scale", In: []int{0}}, d.Inputs[0].Shape[len(d.Inputs[0].Shape)-1:])
	for d.cur = range d.Meshes {
		if d.cur > 0 {
			d.cross(d.cur - 1)
		}
		for range 2 + d.r.IntN(5) {
			d.step()
		}
	}
	if d.cur > 0 && d.r.IntN(6) == 0 { // sometimes back to the first mesh
		d.cur = 0
		d.cross(len(d.Meshes) - 1)
		d.step()
	}
	d.loss()
	d.asks()
	return d.Annotated
}

// meshes draws one to three grids: all devices, parts of them that follow each other, or a mix.
func (d *drawer) meshes() {
	all := d.r.Perm(d.Devices)
	if d.r.IntN(3) > 0 {
		slices.Sort(all)
	}
	parts := [][]int{all}
	switch n := d.Devices; {
	case n > 1 && d.r.IntN(2) == 0: // stages
		parts = nil
		for rest := all; len(rest) > 0 && len(parts) < 3; {
			k := 1 + d.r.IntN(len(rest))
			parts, rest = append(parts, rest[:k]), rest[k:]
		}
	case n > 1 && d.r.IntN(3) == 0: // parts of all devices, which may overlap
		from := d.r.IntN(n)
		parts = append(parts, all[from:from+1+d.r.IntN(n-from)])
		if d.r.IntN(2) == 0 {
			slices.Reverse(parts)
		}
	}
	for _, p := range parts {
		d.Meshes = append(d.Meshes, d.mesh(p))
	}
}

// mesh returns devices as a grid of one to three axes.
func (d *drawer) mesh(devices []int) *mesh.Mesh {
	names := pick(d.r, []string{"dp", "tp", "pp"}, []string{"x", "y", "z"})
	var axes []mesh.Axis
	for left := len(devices); len(axes) < 2 && (left > 1 || len(axes) == 0); {
		k := pick(d.r, divisors(left)...)
		if k > 1 || d.r.IntN(4) == 0 {
			axes, left = append(axes, mesh.Axis{Name: names[len(axes)], Size: k}), left/k
		}
	}
	size := 1
	for _, a := range axes {
		size *= a.Size
	}
	if left := len(devices) / size; left > 1 {
		axes = append(axes, mesh.Axis{Name: names[len(axes)], Size: left})
	}
	m, err := mesh.New(axes, devices...)
	if err != nil {
		panic(err)
	}
	return m
}

func divisors(n int) (list []int) {
	for k := 1; k <= n; k++ {
		if n%k == 0 {
			list = append(list, k)
		}
	}
	return list
}

// place draws a layout of a tensor on the current mesh.
func (d *drawer) place(rank int) laid {
	at := laid{Mesh: d.cur}
	for range d.Meshes[d.cur].NumAxes() {
		p := mesh.Replicate()
		if rank > 0 && d.r.IntN(2) == 0 {
			p = mesh.Shard(d.r.IntN(rank))
		}
		at.Places = append(at.Places, p)
	}
	return at
}

// maybe draws a layout of a value in one of n cases, else none. Values may be unreduced.
func (d *drawer) maybe(n, rank int) laid {
	if d.r.IntN(n) == 0 {
		at := d.place(rank)
		for i := range at.Places {
			if d.r.IntN(8) == 0 {
				at.Places[i] = mesh.Partial(mesh.Sum)
			}
		}
		return at
	}
	return nowhere
}

func (d *drawer) inputs() {
	rows, width := 2+d.r.IntN(7), pick(d.r, 2, 3, 4, 6, 8)
	for range 1 + d.r.IntN(2) {
		x := tensor{Shape: array.Shape{rows, width}, At: d.place(2)}
		if d.r.IntN(3) == 0 {
			x.Shape = array.Shape{rows, 2 + d.r.IntN(4), width}
			x.At = d.place(3)
		}
		if d.r.IntN(8) == 0 {
			x.At = nowhere
		}
		d.input(x)
	}
	if d.r.IntN(3) == 0 {
		x := tensor{Shape: array.Shape{rows, 2 + d.r.IntN(4)}, Ids: 3 + d.r.IntN(7), At: d.place(2)}
		d.input(x)
		d.try(instr{Op: "embedding", In: []int{len(d.values) - 1}, At: d.maybe(3, 3)}, []int{x.Ids, width})
	}
}

func (d *drawer) input(x tensor) {
	t := op.Type{DType: array.F64, Shape: x.Shape}
	if x.Ids > 0 {
		t.DType = array.I32
	}
	d.Inputs = append(d.Inputs, x)
	d.values, d.on = append(d.values, d.b.Param("", t)), append(d.on, x.At.Mesh)
}

// step draws an instruction that ops accept.
func (d *drawer) step() {
	for range 40 {
		x := d.value()
		if x >= 0 && d.draw(x) {
			return
		}
	}
}

// value returns a float value that can be used on the current mesh, mostly a recent one; -1 for none.
func (d *drawer) value() int {
	list := d.here()
	if len(list) == 0 {
		return -1
	}
	if d.r.IntN(2) == 0 {
		return list[len(list)-1]
	}
	return pick(d.r, list...)
}

// here returns the float values on the current mesh, or on none.
func (d *drawer) here() (list []int) {
	for i, v := range d.values {
		if v.DType() == array.F64 && (d.on[i] == d.cur || d.on[i] < 0) {
			list = append(list, i)
		}
	}
	return list
}

// draw draws an instruction of a value, and reports whether it was accepted.
func (d *drawer) draw(x int) bool {
	shape := d.values[x].Shape()
	if len(shape) == 0 {
		return false
	}
	last, dim := shape[len(shape)-1], d.r.IntN(len(shape))
	c := instr{In: []int{x}, Dim: dim}
	switch d.r.IntN(13) {
	case 0, 11:
		c.Op = pick(d.r, sorted(unary)...)
		if c.Op == "squares" || c.Op == "move" || c.Op == "heads" && (len(shape) != 3 || last%2 > 0) {
			return false
		}
	case 1, 12:
		c.Op = pick(d.r, sorted(along)...)
	case 2, 3:
		c.Op = pick(d.r, sorted(binary)...)
		if c.In = append(c.In, d.like(x)); c.In[1] < 0 {
			return false
		}
	case 4:
		c.Op = pick(d.r, "bias", "scale", "rms_norm")
		return d.try(c, []int{last})
	case 5:
		c.Op = "layer_norm"
		return d.try(c, []int{last}, []int{last})
	case 6, 7:
		n := pick(d.r, 2, 3, 4, 5, 6, 8)
		if d.r.IntN(2) == 0 {
			c.Op = "matmul"
			return d.try(c, []int{last, n})
		}
		c.Op = "linear"
		return d.try(c, []int{n, last}, []int{n})
	case 8:
		c.Op, c.From = "narrow", d.r.IntN(shape[dim])
		c.To = c.From + 1 + d.r.IntN(shape[dim]-c.From)
	case 9:
		c.Op, c.In = "concat", append(c.In, d.beside(x, dim))
		if c.In[1] < 0 {
			return false
		}
	case 10:
		c.Op, c.Shape = "transpose", d.r.Perm(len(shape))
		if d.r.IntN(2) == 0 {
			c.Op, c.Shape = "reshape", d.shapes(shape)
		}
	}
	return d.try(c)
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// like returns a value of the shape of another; -1 for none.
func (d *drawer) like(x int) int {
	return d.among(func(s array.Shape) bool { return s.Equal(d.values[x].Shape()) })
}

// beside returns a value that can be joined to another along a dim; -1 for none.
func (d *drawer) beside(x, dim int) int {
	shape := d.values[x].Shape()
	return d.among(func(s array.Shape) bool {
		s = s.Clone()
		if len(s) != len(shape) {
			return false
		}
		s[dim] = shape[dim]
		return s.Equal(shape)
	})
}

func (d *drawer) among(ok func(s array.Shape) bool) int {
	list := slices.DeleteFunc(d.here(), func(i int) bool { return !ok(d.values[i].Shape()) })
	if len(list) == 0 {
		return -1
	}
	return pick(d.r, list...)
}

// shapes returns another shape of as many elements: two dims as one, or one as two.
func (d *drawer) shapes(s array.Shape) []int {
	at := d.r.IntN(len(s))
	out := slices.Clone([]int(s))
	if at+1 < len(s) && (len(s) > 3 || d.r.IntN(2) == 0) {
		return slices.Concat(out[:at], []int{s[at] * s[at+1]}, out[at+2:])
	}
	k := pick(d.r, divisors(s[at])...)
	return slices.Concat(out[:at], []int{k, s[at] / k}, out[at+1:])
}

// most is how many elements and dims a value may have.
const mostElements, mostDims = 3000, 4

// try adds an instruction with weights of these shapes, if its op accepts them.
func (d *drawer) try(c instr, shapes ...[]int) bool {
	weights := slices.Clone(d.weights)
	for _, s := range shapes {
		c.Weights = append(c.Weights, len(weights))
		weights = append(weights, d.b.Param("", op.Type{DType: array.F64, Shape: s}))
	}
	y := c.compute(d.values, weights)
	if y.Err() != nil || y.Shape().Len() > mostElements || y.Shape().Len() == 0 || len(y.Shape()) > mostDims {
		return false
	}
	c.Weights = nil
	for _, s := range shapes {
		d.weight(&c, s)
	}
	if c.At.Mesh < 0 || c.At.Places == nil {
		c.At = d.maybe(3, len(y.Shape()))
	}
	d.add(c)
	return true
}

// weight adds a weight to an instruction: a new one, or one that is also used elsewhere.
func (d *drawer) weight(c *instr, shape []int) {
	var same []int
	for i, w := range d.Weights {
		if w.Shape.Equal(shape) && len(c.Weights) == 0 {
			same = append(same, i)
		}
	}
	if len(same) == 0 || d.r.IntN(2) == 0 {
		c.Weights = append(c.Weights, len(d.Weights))
		w := tensor{Shape: shape, At: d.place(len(shape))}
		if d.r.IntN(10) == 0 {
			w.At = nowhere
		}
		d.Weights = append(d.Weights, w)
		d.weights = append(d.weights, d.b.Param("", op.Type{DType: array.F64, Shape: shape}))
		return
	}
	w := pick(d.r, same...)
	if at := d.Weights[w].At.Mesh; at == d.cur || at < 0 {
		c.Weights = append(c.Weights, w)
		return
	}
	d.add(instr{Op: "weight", Weights: []int{w}, At: d.place(len(shape))})
	c.In = append(c.In, len(d.values)-1)
}

// add adds an instruction.
func (d *drawer) add(c instr) {
	on := c.At.Mesh
	for _, i := range c.In {
		on = max(on, d.on[i])
	}
	for _, i := range c.Weights {
		if c.Op != "weight" {
			on = max(on, d.Weights[i].At.Mesh)
		}
	}
	if c.At.Mesh >= 0 {
		on = c.At.Mesh
	}
	d.Code = append(d.Code, c)
	y := c.compute(d.values, d.weights)
	if y.Err() != nil {
		panic(fmt.Sprintf("seed %d: %v", d.Seed, y.Err()))
	}
	d.values, d.on = append(d.values, y), append(d.on, on)
}

// cross moves values of another mesh to the current one: the last, and perhaps one more.
func (d *drawer) cross(from int) {
	var list []int
	for i, v := range d.values {
		if v.DType() == array.F64 && d.on[i] == from {
			list = append(list, i)
		}
	}
	for k := range min(len(list), 1+d.r.IntN(2)) {
		x := list[len(list)-1]
		if k > 0 {
			x = pick(d.r, list...)
		}
		d.add(instr{Op: "move", In: []int{x}, At: d.place(len(d.values[x].Shape()))})
	}
}

// loss adds the mean squares of all unused values, on the current mesh.
func (d *drawer) loss() {
	total := -1
	for _, x := range d.unused() {
		if d.values[x].DType() != array.F64 {
			continue
		}
		d.add(instr{Op: "squares", In: []int{x}, At: nowhere})
		if d.on[x] >= 0 && d.on[x] != d.cur {
			d.add(instr{Op: "move", In: []int{len(d.values) - 1}, At: d.place(0)})
		}
		if total >= 0 {
			d.add(instr{Op: "add", In: []int{total, len(d.values) - 1}, At: nowhere})
		}
		total = len(d.values) - 1
	}
}
