package optest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

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

// newCooperativeCase returns a case under the rule of devices that compute together, nil where there is none.
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
	if c.rule, c.out, err = Bind(o, c.in, r); err != nil {
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

// checkMeshes checks every legal assignment on each mesh, up to the first mistake, and counts them.
func (c *ruleCase) checkMeshes(t *testing.T, meshes []*mesh.Mesh) (pairs int) {
	t.Helper()
	for _, m := range meshes {
		n, err := c.checkAll(m)
		if pairs += n; err != nil {
			t.Error(err)
			break
		}
	}
	return pairs
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

// sharing is like assignments in which a shared factor has axes of another one, too.
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
func (c *ruleCase) runCooperative(
	m *mesh.Mesh,
	a mesh.Assignment,
	specs []mesh.Spec,
) ([][]array.Array, error) {
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
