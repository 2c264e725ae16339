package op

import (
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Constrain returns x with a requested sharding on m; inference chooses the dims that s leaves open. Its
// gradient has the same constraint.
func Constrain(x *Tensor, m *mesh.Mesh, s mesh.Sharding) *Tensor {
	return apply1(constrain{Mesh: m.String(), Sharding: s.String()}, x)
}

// constrain is an identity with an annotation. Mesh and sharding are texts, so that they print and parse.
type constrain struct {
	identity
	Mesh, Sharding string
}

func (constrain) Name() string { return "constrain" }

// Constrainer is implemented by ops that request a layout for their result.
type Constrainer interface {
	Constraint() (*mesh.Mesh, mesh.Sharding, error)
}

// Constraint returns the requested mesh and sharding.
func (o constrain) Constraint() (*mesh.Mesh, mesh.Sharding, error) {
	return constraintOf(o.Mesh, o.Sharding)
}

func constraintOf(meshText, shardingText string) (*mesh.Mesh, mesh.Sharding, error) {
	m, err := mesh.Parse(meshText)
	if err != nil {
		return nil, mesh.Sharding{}, err
	}
	s, err := mesh.ParseSharding(shardingText)
	return m, s, err
}

func (o constrain) Infer(in []Type) ([]Type, error) {
	out, err := o.identity.Infer(in)
	if err != nil {
		return nil, err
	}
	m, s, err := o.Constraint()
	if err != nil {
		return nil, err
	}
	return out, s.Check(m, len(in[0].Shape))
}

// VJP constrains the gradient the same way; if the operand came from another mesh, the gradient returns
// there.
func (o constrain) VJP(in, _, dy []*Tensor) []*Tensor {
	if from := homeOf(in[0]); from != "" && from != o.Mesh {
		return []*Tensor{apply1(constrain{Mesh: from, Sharding: openAll(len(in[0].Shape()))}, dy[0])}
	}
	return []*Tensor{apply1(o, dy[0])}
}

// homeOf returns the mesh of a value: for an eager one that of its data, for a traced one that of the nearest
// constraint before it.
func homeOf(x *Tensor) string {
	if at, ok := LayoutOf(x); ok || x.Store() != nil {
		if !ok {
			return ""
		}
		return at.Mesh.String()
	}
	seen := map[*Tensor]bool{}
	for next := []*Tensor{x}; len(next) > 0; {
		var before []*Tensor
		for _, v := range next {
			n := v.Node()
			if n == nil || seen[v] {
				continue
			}
			seen[v] = true
			if c, ok := n.Op().(Constrainer); ok {
				if m, _, err := c.Constraint(); err == nil {
					return m.String()
				}
			}
			before = append(before, n.In()...)
		}
		next = before
	}
	return ""
}

// openAll returns the sharding that leaves every dim to inference.
func openAll(rank int) string { return mesh.Open(mesh.Whole(rank)).String() }

// Emit writes nothing, because local programs are already split.
func (constrain) Emit(_ *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref { return in }

// Fold keeps the op, because it carries the annotation.
func (constrain) Fold([]*Tensor) *Tensor { return nil }

func (constrain) Samples() []Sample {
	o := constrain{Mesh: "dp=2,tp=2", Sharding: "@[dp,?]"}
	return []Sample{{Op: o, In: []Arg{f32(5, 7)}}}
}
