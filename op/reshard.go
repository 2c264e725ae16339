package op

import (
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Reshard changes the layout of x from one layout to another, on the same mesh or on another one. Its
// gradient is resharded back.
func Reshard(x *Tensor, from, to Layout) *Tensor {
	return apply1(reshard{
		FromMesh: from.Mesh.String(), From: from.Spec.String(), ToMesh: to.Mesh.String(), To: to.Spec.String(),
	}, x)
}

// reshard is an identity on the whole tensor; it moves its shards.
type reshard struct {
	identity
	FromMesh, From, ToMesh, To string
}

func (reshard) Name() string { return "reshard" }

// Constraint returns the layout of the result.
func (o reshard) Constraint() (*mesh.Mesh, mesh.Sharding, error) { return constraintOf(o.ToMesh, o.To) }

func (o reshard) Infer(in []Type) ([]Type, error) {
	out, err := o.identity.Infer(in)
	if err != nil {
		return nil, err
	}
	for _, side := range [][2]string{{o.FromMesh, o.From}, {o.ToMesh, o.To}} {
		m, s, err := constraintOf(side[0], side[1])
		if err != nil {
			return nil, err
		}
		if err := s.Check(m, len(in[0].Shape)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// VJP reshards the gradient back. All terms of a reduced sum have the gradient of the sum, so it is
// replicated along partial axes.
func (o reshard) VJP(_, _, dy []*Tensor) []*Tensor {
	back := o.From
	if _, s, err := constraintOf(o.FromMesh, o.From); err == nil {
		back = s.Spec.With().String()
	}
	return []*Tensor{apply1(reshard{FromMesh: o.ToMesh, From: o.To, ToMesh: o.FromMesh, To: back}, dy[0])}
}

// Emit writes nothing, because local programs are already split.
func (reshard) Emit(_ *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref { return in }

// Fold keeps the op, because it defines the layout of its result.
func (reshard) Fold([]*Tensor) *Tensor { return nil }

func (reshard) Samples() []Sample {
	o := reshard{FromMesh: "dp=2,tp=2", From: "@[dp,_]", ToMesh: "dp=2,tp=2@[4,5,6,7]", To: "@[_,tp]"}
	return []Sample{{Op: o, In: []Arg{f32(5, 7)}}}
}
