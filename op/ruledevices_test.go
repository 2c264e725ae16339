package op_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// evaluator runs an op on one device.
type evaluator interface {
	Eval(o op.Op, in, out []array.Array)
}

// ruleCase is an op on whole operands, with what it computes of them.
type ruleCase struct {
	d             evaluator
	op            op.Op
	rule          *mesh.Parsed
	in, out       []op.Type
	operands      []array.Array
	want          []array.Array
	skipsBadIndex bool
	// together is the op where devices compute it together, else nil.
	sharedSequence op.Cooperator
}

// newCooperativeCase is a case under the rule of devices that compute together, nil where there is none.
func newCooperativeCase(d evaluator, o op.Op, operands []array.Array) (*ruleCase, error) {
	var types []op.Type
	for _, a := range operands {
		types = append(types, ir.TypeOf(a))
	}
	how := op.CooperativeRuleOf(o, types)
	if how.Rule == "" {
		return nil, nil
	}
	c, err := newRuleCase(d, o, operands, how.Rule)
	if err == nil {
		c.sharedSequence = o.(op.Cooperator)
	}
	return c, err
}

func newRuleCase(d evaluator, o op.Op, operands []array.Array, r mesh.Rule) (*ruleCase, error) {
	c := &ruleCase{d: d, op: o, operands: operands}
	for _, a := range c.operands {
		c.in = append(c.in, ir.TypeOf(a))
	}
	var err error
	if c.rule, c.out, err = bind(o, c.in, r); err != nil {
		return nil, err
	}
	c.want, err = c.run(o, c.operands, c.out)
	var bad *op.IndexError
	if errors.As(err, &bad) { // a size that the sample's indices do not fit
		c.skipsBadIndex = true
		return c, nil
	}
	return c, err
}

// run evaluates o into memory that holds rubbish. A panic is an error.
func (c *ruleCase) run(o op.Op, in []array.Array, types []op.Type) (out []array.Array, err error) {
	defer func() {
		if r := recover(); r != nil {
			if e, ok := r.(error); ok {
				err = fmt.Errorf("%s: %w", ir.FormatOp(o), e)
			} else {
				err = fmt.Errorf("%s: panic: %v", ir.FormatOp(o), r)
			}
		}
	}()
	out = make([]array.Array, len(types))
	for i, t := range types {
		out[i] = array.New(t.DType, t.Shape...)
		if t.DType != array.Bool {
			for j := range out[i].Bytes() {
				out[i].Bytes()[j] = 0xff
			}
		}
	}
	c.d.Eval(o, in, out)
	return out, nil
}

// checkAll checks every legal assignment on a mesh and counts them.
func (c *ruleCase) checkAll(m *mesh.Mesh) (int, error) {
	if c.skipsBadIndex {
		return 0, nil
	}
	var list []mesh.Assignment
	for _, parts := range axisParts(m) {
		list = append(list, assignments(c.rule, m, parts)...)
	}
	if c.sharedSequence != nil {
		list = append(list, c.sharing(m, list)...)
		list = slices.DeleteFunc(list, func(a mesh.Assignment) bool { return !c.exchanges(a) })
	}
	for _, a := range list {
		if err := c.check(m, a); err != nil {
			return len(list), fmt.Errorf("%s%v on %s: %w", ir.FormatOp(c.op), c.in, m, err)
		}
	}
	return len(list), nil
}

// checkFactor checks the assignments that split one factor alone and counts the legal ones.
func (c *ruleCase) checkFactor(meshes []*mesh.Mesh, name byte) (int, error) {
	legal := 0
	for _, m := range meshes {
		a := make(mesh.Assignment, len(c.rule.Factors))
		a[c.rule.Index(name)] = mesh.On("x")
		if len(c.rule.Check(m, a)) > 0 {
			continue
		}
		legal++
		if err := c.check(m, a); err != nil {
			return legal, err
		}
	}
	return legal, nil
}

// check runs the op on all devices of a mesh under an assignment and compares what each then holds.
func (c *ruleCase) check(m *mesh.Mesh, a mesh.Assignment) error {
	inSpecs, outSpecs, err := c.rule.Specs(m, a)
	if err != nil {
		return err
	}
	run := c.runAll
	if c.sharedSequence != nil {
		run = c.runCooperative
	}
	held, err := run(m, a, inSpecs)
	if err != nil {
		return fmt.Errorf("%s: %w", c.rule.Text(a), err)
	}
	for r, spec := range outSpecs {
		if err := c.compare(m, r, spec, held); err != nil {
			return fmt.Errorf("%s: result %d %s: %w", c.rule.Text(a), r, spec, err)
		}
	}
	return nil
}

// sharing is assignments in which a shared factor has axes of another one, too.
func (c *ruleCase) sharing(m *mesh.Mesh, list []mesh.Assignment) []mesh.Assignment {
	var more []mesh.Assignment
	for f, factor := range c.rule.Factors {
		for _, a := range list {
			for g := range a {
				for i := range a[g] {
					b := a.Clone()
					b[f] = append(slices.Clone(a[f]), a[g][:i+1]...)
					if factor.Shared && g != f && len(c.rule.Check(m, b)) == 0 {
						more = append(more, b)
					}
				}
			}
		}
	}
	return more
}

// exchanges reports whether an assignment splits a factor along which devices work together.
func (c *ruleCase) exchanges(a mesh.Assignment) bool {
	for f, axes := range a {
		if c.rule.Factors[f].Joint && len(axes) > 0 {
			return true
		}
	}
	return false
}

// runAll runs the op on every device, one after the other.
func (c *ruleCase) runAll(m *mesh.Mesh, a mesh.Assignment, specs []mesh.Spec) ([][]array.Array, error) {
	held := make([][]array.Array, m.Size())
	for i, id := range m.Devices() {
		at, err := op.NewPlace(c.rule, m, a, id, c.in, c.out)
		if err != nil {
			return nil, err
		}
		if held[i], err = c.runOn(at, m, specs, id); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// runCooperative runs the op on all devices at once, which exchange what they need.
func (c *ruleCase) runCooperative(m *mesh.Mesh, a mesh.Assignment, specs []mesh.Spec) ([][]array.Array, error) {
	world, err := inproc.New(m.Size())
	if err != nil {
		return nil, err
	}
	held := make([][]array.Array, m.Size())
	return held, world.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
		d := cpu.NewDevice(cpu.Config{Threads: 1})
		defer d.Close()
		at, err := op.NewPlace(c.rule, m, a, r.ID(), c.in, c.out)
		if err != nil {
			return err
		}
		s := d.In(r).NewSession()
		parts := make([]*op.Tensor, len(c.operands))
		for i, x := range c.operands {
			part, err := piece(m, specs[i], x, r.ID())
			if err != nil {
				return err
			}
			parts[i] = s.Tensor(part)
		}
		out, err := op.Cooperate(c.sharedSequence, at, parts)
		for _, y := range out {
			if err == nil {
				var got array.Array
				got, err = cpu.Read(y)
				held[r.ID()] = append(held[r.ID()], got)
			}
		}
		return err
	})
}

func (c *ruleCase) runOn(at *op.Place, m *mesh.Mesh, specs []mesh.Spec, id int) ([]array.Array, error) {
	local, err := op.Localize(c.op, at)
	if err != nil {
		return nil, err
	}
	pieces := make([]array.Array, len(c.operands))
	for i, x := range c.operands {
		if pieces[i], err = piece(m, specs[i], x, id); err != nil {
			return nil, err
		}
	}
	return c.run(local, pieces, at.LocalOut)
}

// compare combines a partial result and compares each device's part with that of the whole result.
func (c *ruleCase) compare(m *mesh.Mesh, r int, spec mesh.Spec, held [][]array.Array) error {
	parts := map[int]array.Array{}
	for _, id := range m.Devices() {
		parts[id] = held[id][r]
	}
	exact := !c.loose() && c.sharedSequence == nil
	for _, p := range spec.Partial {
		groups, err := m.GroupsOver(mesh.Axes{p.Sub})
		if err != nil {
			return err
		}
		for _, g := range groups {
			combine(p.Reduce, parts, g)
		}
		exact = exact && p.Reduce != mesh.Sum && p.Reduce != mesh.Prod
	}
	for _, id := range m.Devices() {
		want, err := piece(m, mesh.Spec{Dims: spec.Dims}, c.want[r], id)
		if err != nil {
			return err
		}
		got := parts[id]
		if exact && string(got.Bytes()) != string(want.Bytes()) || !exact &&
			relative(got, want, c.want[r]) > tolerance(got.DType()) {
			return fmt.Errorf("device %d holds %v, want %v", id, got, want)
		}
	}
	return nil
}

// loose reports whether bits may differ although no sum is split.
func (c *ruleCase) loose() bool {
	return blockedSums[c.op.Name()] && slices.ContainsFunc(c.in,
		func(t op.Type) bool { return t.DType == array.F32 })
}

// blockedSums is the ops whose kernels sum in blocks that go by the size of what they are given, so that f32
// bits may differ: attention cuts the keys by what its queries see together.
var blockedSums = map[string]bool{"attention": true, "attention_grad": true}

// relative is the largest difference of two parts in terms of the largest number of the whole.
func relative(got, want, whole array.Array) float64 {
	diff, top := 0.0, 1e-300
	for i := range want.Len() {
		g, w := got.At(i), want.At(i)
		if g == w || g != g && w != w {
			continue
		}
		diff = max(diff, math.Abs(g-w))
		if math.IsNaN(g - w) {
			return math.Inf(1)
		}
	}
	for i := range whole.Len() {
		if w := math.Abs(whole.At(i)); !math.IsInf(w, 0) {
			top = max(top, w)
		}
	}
	return diff / top
}

// piece is a device's part of a tensor.
func piece(m *mesh.Mesh, spec mesh.Spec, x array.Array, id int) (array.Array, error) {
	l, err := spec.Layout(m, x.Shape())
	if err != nil {
		return array.Array{}, err
	}
	box, _ := l.Box(id)
	out := array.New(x.DType(), box.Size...)
	if len(box.Size) == 0 {
		copy(out.Bytes(), x.Bytes())
		return out, nil
	}
	if box.Empty() {
		return out, nil
	}
	last := len(box.Size) - 1
	width, strides := box.Size[last]*x.DType().Size(), x.Shape().Strides()
	for row := range box.Len() / box.Size[last] {
		from, rest := box.Start[last], row
		for d := last - 1; d >= 0; d-- {
			from += (box.Start[d] + rest%box.Size[d]) * strides[d]
			rest /= box.Size[d]
		}
		copy(out.Bytes()[row*width:], x.Bytes()[from*x.DType().Size():][:width])
	}
	return out, nil
}

// combine gives every device of a group the reduction of what they hold.
func combine(kind mesh.Reduce, parts map[int]array.Array, group []int) {
	total := parts[group[0]].Clone()
	for _, id := range group[1:] {
		reduceInto(kind, total, parts[id])
	}
	for _, id := range group {
		parts[id] = total
	}
}

func reduceInto(kind mesh.Reduce, dst, x array.Array) {
	switch dst.DType() {
	case array.F64:
		reduceSlices(kind, array.Data[float64](dst), array.Data[float64](x))
	case array.F32:
		reduceSlices(kind, array.Data[float32](dst), array.Data[float32](x))
	case array.I64:
		reduceSlices(kind, array.Data[int64](dst), array.Data[int64](x))
	case array.I32:
		reduceSlices(kind, array.Data[int32](dst), array.Data[int32](x))
	case array.Bool:
		for i, v := range array.Data[bool](x) {
			b := &array.Data[bool](dst)[i]
			if kind == mesh.Any {
				*b = *b || v
			} else {
				*b = *b && v
			}
		}
	default:
		panic("no reduction of " + dst.DType().String())
	}
}

func reduceSlices[T float64 | float32 | int64 | int32](kind mesh.Reduce, dst, x []T) {
	for i, v := range x {
		switch kind {
		case mesh.Sum:
			dst[i] += v
		case mesh.Prod:
			dst[i] *= v
		case mesh.Max:
			dst[i] = T(math.Max(float64(dst[i]), float64(v)))
		case mesh.Min:
			dst[i] = T(math.Min(float64(dst[i]), float64(v)))
		default:
			panic("no reduction " + kind.String() + " of numbers")
		}
	}
}
