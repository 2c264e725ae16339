package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Cooperator is an op that devices can compute together along factors that its Rule keeps whole: each of them
// works on its part and they exchange what they need of each other, so that no operand is gathered.
//
// A cross-entropy over split classes is one: devices agree on each row's largest logit and add up sums of
// exponentials.
type Cooperator interface {
	Op
	// CooperativeRule returns which factors may be split so on operands of these types.
	CooperativeRule(in []Type) CooperativeRule
	// Cooperate returns what the device of a place, under a legal assignment of the CooperativeRule, makes of
	// its parts: with collectives along exactly the axes that split joint factors. All devices of the place's
	// mesh run the same collectives in the same order.
	Cooperate(at *Place, in []*Tensor) []*Tensor
}

// CooperativeRule is how an op may be computed together.
type CooperativeRule struct {
	// Rule has joint factors (b+) where the op's own rule has whole ones, or one joint factor where that has
	// two; the operands and results are the same. Empty means that there is no such way.
	Rule   mesh.Rule
	Prefer Preference
}

// Preference says when devices work together rather than gather.
type Preference uint8

// The preferences.
const (
	// ByTime: where it takes less time.
	ByTime Preference = iota
	// BySize: also where it only sends about as little, since what a gather brings together is large.
	BySize
	// Always: wherever operands would have to be gathered otherwise.
	Always
)

// CooperativeRuleOf returns how an op may be computed together on operands of these types; its rule is empty
// where it cannot be.
func CooperativeRuleOf(o Op, in []Type) CooperativeRule {
	if c, ok := o.(Cooperator); ok {
		return c.CooperativeRule(in)
	}
	return CooperativeRule{}
}

// Cooperate applies to a device's parts what it does in a Cooperator's stead. Results have the local types,
// or it is an error.
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

// joint is the devices among which a dim is split, as one of them sees it.
type joint struct {
	mesh *mesh.Mesh
	axes mesh.Axes
	// own is the device's part of the dim, the last of several, and total the elements along all of them.
	own   mesh.Range
	total int
}

// joint returns who shares dims of an operand.
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

// lastJoint returns who shares the last dim of the first operand.
func (at *Place) lastJoint() joint { return at.joint(0, len(at.In[0].Shape)-1) }

// alone returns one device that has all of some dims.
func alone(x *Tensor, dims ...int) joint {
	j := joint{total: 1}
	for _, d := range dims {
		j.total *= x.Dim(d)
		j.own = mesh.Range{Size: x.Dim(d)}
	}
	return j
}

// single reports whether a device has nobody to exchange with.
func (j joint) single() bool { return j.mesh == nil || j.mesh.Count(j.axes) == 1 }

func (j joint) reduce(x *Tensor, by mesh.Reduce) *Tensor {
	if j.single() {
		return x
	}
	return AllReduce(x, j.mesh, j.axes, by)
}

// sum returns the sum of what the devices have.
func (j joint) sum(x *Tensor) *Tensor { return j.reduce(x, mesh.Sum) }

// sums returns the sums of several tensors of one shape, in one exchange.
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

// max returns the largest of what the devices have.
func (j joint) max(x *Tensor) *Tensor { return j.reduce(x, mesh.Max) }

// mean returns the mean along the whole dim, of which x has the device's sums.
func (j joint) mean(x *Tensor) *Tensor { return MulScalar(j.sum(x), 1/float64(j.total)) }

// shift returns the largest element of x along dims. It keeps exp from overflowing and has no part in the
// gradient: what is computed with it does not depend on it.
func (j joint) shift(x *Tensor, dims ...int) *Tensor {
	return keepDims(StopGradient(j.max(AMax(x, dims...))), x, dims)
}

// sumOver returns the sum of x along dims, made to broadcast against it.
func (j joint) sumOver(x *Tensor, dims ...int) *Tensor {
	return keepDims(j.sum(Sum(x, dims...)), x, dims)
}

// jointRule returns an op's own rule with its starred factors joint.
func jointRule(r mesh.Rule) mesh.Rule {
	text := []byte(r)
	for i, c := range text {
		if c == '*' {
			text[i] = '+'
		}
	}
	return mesh.Rule(text)
}
