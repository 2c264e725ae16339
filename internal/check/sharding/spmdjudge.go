package sharding

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// spmdOp expresses a recorded op in Galley's ops.
type spmdOp struct {
	family string
	// build computes the results from the case's operands; nil for results that do not exist here.
	build func(b *spmdBuild) []*op.Tensor
	// missing is why the op does not exist here.
	missing string
	// deviates is why the recorded answer cannot be what a correct op does.
	deviates string
}

// spmdBuild is the program of a case being built.
type spmdBuild struct {
	*spmdCase
	builder *ir.Builder
	params  []*op.Tensor
}

// given reports whether there is a tensor i.
func (b *spmdBuild) given(i int) bool { return i < len(b.Inputs) && !b.Inputs[i].absent() }

// shape returns the recorded shape of operand i.
func (b *spmdBuild) shape(i int) array.Shape { return array.Shape(b.Inputs[i].Shape).Clone() }

// param returns operand i as a parameter of a dtype, made on first use.
func (b *spmdBuild) param(i int, dtype array.DType) *op.Tensor {
	if !b.given(i) {
		return nil
	}
	if b.params[i] == nil {
		b.params[i] = b.builder.Param(b.Inputs[i].Name, ir.Type{DType: dtype, Shape: b.shape(i)})
	}
	return b.params[i]
}

func (b *spmdBuild) float(i int) *op.Tensor { return b.param(i, array.F32) }
func (b *spmdBuild) index(i int) *op.Tensor { return b.param(i, array.I64) }

// floats returns operands from first up to last, all of them floats.
func (b *spmdBuild) floats(first, last int) []*op.Tensor {
	var list []*op.Tensor
	for i := first; i < last; i++ {
		list = append(list, b.float(i))
	}
	return list
}

// find returns the operand with a name, as a float; nil if there is none.
func (b *spmdBuild) find(name string) *op.Tensor {
	for i, t := range b.Inputs {
		if t != nil && t.Name == name {
			return b.float(i)
		}
	}
	return nil
}

// zeros returns a placeholder of which only the shape matters.
func (b *spmdBuild) zeros(dtype array.DType, shape ...int) *op.Tensor {
	return op.Full(b.builder, dtype, shape, 0)
}

// refuse marks the case as one that cannot be built.
func (b *spmdBuild) refuse(format string, args ...any) []*op.Tensor {
	return []*op.Tensor{ir.Invalid(b.builder, fmt.Errorf(format, args...))}
}

func (c *spmdCase) family() string {
	if o, ok := spmdOps()[c.Op]; ok {
		return o.family
	}
	return "other"
}

// judge compares the case with what Galley infers.
func (c *spmdCase) judge() finding {
	o, ok := spmdOps()[c.Op]
	switch {
	case !ok:
		return unsupported("there is no %s here", c.Op)
	case o.missing != "":
		return unsupported("%s: %s", c.Op, o.missing)
	case c.inconsistent() != "":
		return unsupported("recorded as it would be wrong if executed: %s", c.inconsistent())
	case c.Hazard != "":
		return unsupported("recorded as wrong if executed: %s", c.Hazard)
	case o.deviates != "":
		if f := c.compare(o); f.outcome == agrees || f.outcome == isBetter {
			return f
		}
		return unsupported("%s: %s", c.Op, o.deviates)
	case c.illFormed():
		return c.judgeIllFormed(o)
	}
	return c.compare(o)
}

// inconsistent explains why the recorded answer cannot be right for any op: terms of a sum along an axis
// cannot give shards of a result that the same axis splits.
func (c *spmdCase) inconsistent() string {
	for _, x := range c.WantIn {
		for _, y := range c.WantOut {
			if x == nil {
				continue
			}
			dims, _ := y.mapping()
			for _, axis := range x.Partial {
				if slices.ContainsFunc(dims, func(axes []int) bool { return slices.Contains(axes, axis) }) {
					return "an operand stays partial over an axis that splits a result"
				}
			}
		}
	}
	return ""
}

func (c *spmdCase) illFormed() bool {
	return slices.ContainsFunc(slices.Concat(c.Inputs, c.Outputs), (*spmdTensor).illFormed)
}

// judgeIllFormed tries a case with an invalid spec: if inference does not use that tensor, the rest is
// compared all the same, though it counts apart.
func (c *spmdCase) judgeIllFormed(o spmdOp) finding {
	read := c.Inputs
	if c.Direction == "backward" {
		read = c.Outputs
	}
	if slices.ContainsFunc(read, (*spmdTensor).illFormed) {
		return unsupported("a spec that inference reads is ill formed")
	}
	switch f := c.compare(o); f.outcome {
	case agrees, isBetter:
		return unsupported("a spec that inference does not read is ill formed; the rest holds here")
	case isUnsupported:
		return f
	default:
		return unsupported("a spec that inference does not read is ill formed; the rest differs: %s",
			strings.Join(f.faults, "; "))
	}
}

// compare builds the case, infers and compares.
func (c *spmdCase) compare(o spmdOp) finding {
	m, err := spmdMesh(c.MeshShape)
	if err != nil {
		return fault("%v", err)
	}
	b := &spmdBuild{spmdCase: c, builder: ir.NewBuilder(c.Op), params: make([]*op.Tensor, len(c.Inputs))}
	results, err := o.tryBuild(b)
	if err != nil {
		return fault("%v", err)
	}
	if err := buildError(b.builder, results); err != nil {
		if c.WantError != "" {
			return finding{}
		}
		return unsupported("%s does not take what is given: %v", c.Op, err)
	}
	f := newFlow(m, results)
	if c.Direction == "backward" {
		err = f.backward(b, results)
	} else {
		err = f.forward(b, results)
	}
	switch {
	case errors.Is(err, errSpec):
		return unsupported("a spec that inference reads is ill formed")
	case err != nil:
		return fault("%v", err)
	case c.WantError != "":
		return finding{outcome: isBetter, reason: "an answer where the recorded rule gives up: " +
			f.text(b, results)}
	}
	return c.assert(m, f, b, results)
}

// tryBuild is like build, and returns an error for a case that lacks what the op needs.
func (o spmdOp) tryBuild(b *spmdBuild) (results []*op.Tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the case cannot be read as %s: %v", b.Op, r)
		}
	}()
	return o.build(b), nil
}

func buildError(b *ir.Builder, results []*op.Tensor) error {
	if b.Err() != nil {
		return b.Err()
	}
	for _, r := range results {
		if r != nil && r.Err() != nil {
			return r.Err()
		}
	}
	return nil
}

// assert checks what the case states. Operands that the program does not read may have any layout.
func (c *spmdCase) assert(m *mesh.Mesh, f *flow, b *spmdBuild, results []*op.Tensor) finding {
	var faults []string
	for i, want := range c.WantIn {
		if i >= len(b.params) || b.params[i] == nil || !f.reads(b.params[i]) {
			continue
		}
		if text := want.contradicts(m, f.specs[b.params[i]]); text != "" {
			faults = append(faults, fmt.Sprintf("operand %d: %s", i, text))
		}
	}
	for i, want := range c.WantOut {
		if i >= len(results) || results[i] == nil {
			continue
		}
		if text := want.contradicts(m, f.specs[results[i]]); text != "" {
			faults = append(faults, fmt.Sprintf("result %d: %s", i, text))
		}
	}
	if len(faults) == 0 {
		return finding{}
	}
	if reason, ok := c.better(m, f, b, results); ok {
		return finding{outcome: isBetter, reason: strings.Join(faults, "; ") + ": " + reason}
	} else if reason != "" {
		faults[len(faults)-1] += " (" + reason + ")"
	}
	return finding{outcome: differs, faults: faults}
}
