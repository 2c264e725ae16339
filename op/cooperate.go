package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Cooperator is implemented by ops that devices can compute jointly along factors that the op's Rule does not
// let be split: each device works on its shard, and they exchange partial results instead of gathering
// operands.
//
// Example: for a cross-entropy over split classes, devices agree on each row's largest logit and sum up their
// exponentials.
type Cooperator interface {
	Op
	// CooperativeRule returns which factors may be split for operands of these types.
	CooperativeRule(in []Type) CooperativeRule
	// Cooperate computes the results of one device, at a place under a legal assignment of the CooperativeRule,
	// from its shards. It uses collectives along exactly the axes that split joint factors. All devices of the
	// place's mesh run the same collectives in the same order.
	Cooperate(at *Place, in []*Tensor) []*Tensor
}

// CooperativeRule describes how devices may compute an op jointly.
type CooperativeRule struct {
	// Rule has joint factors (b+) where the op's own rule has unsplittable ones, or one joint factor in place of
	// two; operands and results are the same. An empty rule means that the op cannot be computed jointly.
	Rule   mesh.Rule
	Prefer Preference
}

// Preference says when devices compute jointly instead of gathering.
type Preference uint8

// Preferences.
const (
	// ByTime: if it takes less time.
	ByTime Preference = iota
	// BySize: also if it sends about as few bytes, because a gathered operand would be large.
	BySize
	// Always: whenever operands would have to be gathered otherwise.
	Always
)

// CooperativeRuleOf returns how an op may be computed jointly on operands of these types; its rule is empty
// if it cannot be.
func CooperativeRuleOf(o Op, in []Type) CooperativeRule {
	if c, ok := o.(Cooperator); ok {
		return c.CooperativeRule(in)
	}
	return CooperativeRule{}
}

// Cooperate applies a Cooperator's local computation to one device's shards. It fails if the results do not
// have the local types.
func Cooperate(o Cooperator, at *Place, in []*Tensor) ([]*Tensor, error) {
	out := o.Cooperate(at, in)
	types := make([]Type, len(out))
	for i, v := range out {
		if v.Err() != nil {
			return nil, fmt.Errorf("%s together on device %d: %w", o.Name(), at.device, v.Err())
		}
		types[i] = v.Type()
	}
	if !slices.EqualFunc(types, at.LocalOut, Type.Equal) {
		return nil, fmt.Errorf("%s together on device %d: got %v, want %v", o.Name(), at.device, types, at.LocalOut)
	}
	return out, nil
}

// Cooperation returns the program of one device that Cooperate applies.
func Cooperation(o Cooperator, at *Place) (*ir.Func, error) {
	b := ir.NewBuilder(o.Name())
	defer b.At("-")()
	in := make([]*Tensor, len(at.LocalIn))
	for i, t := range at.LocalIn {
		in[i] = b.Param("", t)
	}
	out, err := Cooperate(o, at, in)
	if err != nil {
		return nil, err
	}
	return b.Build(out...)
}

// joint is the group of devices among which a dim is split, from the view of one of them.
type joint struct {
	mesh *mesh.Mesh
	axes mesh.Axes
	// own is the device's range of the dim, of the last one if several dims are split; total is the number of
	// elements along all of them.
	own   mesh.Range
	total int
}

// joint returns the devices that share dims of an operand.
func (at *Place) joint(operand int, dims ...int) joint {
	j := joint{mesh: at.mesh, total: 1}
	for _, d := range dims {
		j.own, j.total = at.InRange(operand, d), j.total*at.In[operand].Shape[d]
		for _, name := range at.Rule.In[operand][d] {
			j.axes = append(j.axes, at.Assign[at.Rule.Index(name)]...)
		}
	}
	return j
}

// lastJoint returns the devices that share the last dim of the first operand.
func (at *Place) lastJoint() joint { return at.joint(0, len(at.In[0].Shape)-1) }

// alone returns a group of one device that has all of the dims.
func alone(x *Tensor, dims ...int) joint {
	j := joint{total: 1}
	for _, d := range dims {
		j.total *= x.Dim(d)
		j.own = mesh.Range{Size: x.Dim(d)}
	}
	return j
}

// single reports whether the device has no other to communicate with.
func (j joint) single() bool { return j.mesh == nil || j.mesh.Count(j.axes) == 1 }

func (j joint) reduce(x *Tensor, by mesh.Reduce) *Tensor {
	if j.single() {
		return x
	}
	return AllReduce(x, j.mesh, j.axes, by)
}

// sum returns the sum of x over the devices.
func (j joint) sum(x *Tensor) *Tensor { return j.reduce(x, mesh.Sum) }

// sums returns the sums of several tensors of one shape, with one all-reduce.
func (j joint) sums(xs ...*Tensor) []*Tensor {
	if j.single() {
		return xs
	}
	all := j.sum(Stack(xs, 0))
	if all.Err() != nil {
		return slices.Repeat([]*Tensor{all}, len(xs))
	}
	return Unbind(all, 0)
}

// max returns the elementwise maximum of x over the devices.
func (j joint) max(x *Tensor) *Tensor { return j.reduce(x, mesh.Max) }

// mean returns the mean along the whole dim, where x holds the device's sums.
func (j joint) mean(x *Tensor) *Tensor { return MulScalar(j.sum(x), 1/float64(j.total)) }

// shift returns the largest element of x along dims, which keeps exp from overflowing. It does not contribute
// to the gradient, because results do not depend on it.
func (j joint) shift(x *Tensor, dims ...int) *Tensor {
	return keepDims(StopGradient(j.max(AMax(x, dims...))), x, dims)
}

// sumOver returns the sum of x along dims, shaped to broadcast against x.
func (j joint) sumOver(x *Tensor, dims ...int) *Tensor {
	return keepDims(j.sum(Sum(x, dims...)), x, dims)
}

// jointRule returns an op's own rule with its starred factors made joint.
func jointRule(r mesh.Rule) mesh.Rule {
	text := []byte(r)
	for i, c := range text {
		if c == '*' {
			text[i] = '+'
		}
	}
	return mesh.Rule(text)
}
