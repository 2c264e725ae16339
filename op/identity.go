package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Identity returns x as a new value, at no cost, so that gradients can be taken with respect to it.
func Identity(x *Tensor) *Tensor { return apply1(identity{}, x) }

// IdentityOp returns Identity's op, for programs of a single node that only move their operand.
func IdentityOp() Op { return identity{} }

type identity struct{ mover }

func (identity) Name() string    { return "identity" }
func (identity) Linear() [][]int { return [][]int{{0}} }
func (identity) Alias()          {}

func (identity) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("want 1 operand: got %d", len(in))
	}
	return in, nil
}

func (identity) VJP(_, _, dy []*Tensor) []*Tensor     { return dy }
func (identity) Rule(in []Type) mesh.Rule             { return sameRule(len(in[0].Shape), 1, 1) }
func (identity) Eval(env *Env, in, out []array.Array) { copyBytes(env, out[0], in[0]) }
func (identity) Samples() []Sample                    { return oneSample(f32(5, 7)) }

func (identity) Emit(_ *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref { return in }

// Fold removes the op, because gradients pass it either way.
func (identity) Fold(in []*Tensor) *Tensor { return in[0] }
