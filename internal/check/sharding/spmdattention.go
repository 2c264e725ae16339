package sharding

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// attentionOps returns attention and what goes with it.
func attentionOps() map[string]spmdOp {
	return opTable{
		"flash_attention": buildAttention,
		"flash_attention_grad": func(b *spmdBuild) []*op.Tensor {
			return b.attentionGrad("out",
				"softmax_lse")
		},
		"flashmask_attention": buildAttention,
		"flashmask_attention_grad": func(b *spmdBuild) []*op.Tensor {
			return b.attentionGrad("out",
				"softmax_lse")
		},
		"fused_rotary_position_embedding":      func(b *spmdBuild) []*op.Tensor { return b.rotate(0, 5) },
		"fused_rotary_position_embedding_grad": func(b *spmdBuild) []*op.Tensor { return b.rotate(3, 2) },
	}.ops()
}

// buildAttention returns the output, no softmax, the log-sum-exp, and no seed: masks and dropout do not
// change specs.
func buildAttention(b *spmdBuild) []*op.Tensor {
	out, lse := op.AttentionLSE(b.float(0), b.float(1), b.float(2),
		op.AttentionConfig{Causal: b.Attrs.bool("causal")})
	return []*op.Tensor{out, nil, lse, nil}
}

func (b *spmdBuild) attentionGrad(out, lse string) []*op.Tensor {
	y, _ := op.AttentionLSE(b.float(0), b.float(1), b.float(2),
		op.AttentionConfig{Causal: b.Attrs.bool("causal")})
	if y.Err() != nil {
		return only(y)
	}
	n := y.Node()
	outs := []*op.Tensor{b.find(out), b.find(lse)}
	return n.Op().(op.Op).VJP(n.In(), outs, []*op.Tensor{b.float(len(b.Inputs) - 1), nil})[:3]
}

// rotate applies RoPE to the three operands from first on, by positions if that is an operand. The gradient,
// a rotation in the other direction, is the same. Sines and cosines are computed where they are needed.
func (b *spmdBuild) rotate(first, positions int) []*op.Tensor {
	out := make([]*op.Tensor, 3)
	for i := range out {
		if !b.given(first + i) {
			continue
		}
		x := b.float(first + i)
		c := op.RoPEConfig{Positions: b.index(positions)}
		if b.Attrs.bool("time_major") {
			out[i] = op.Transpose(op.RoPE(op.Transpose(x, 1, 0, 2, 3), c), 1, 0, 2, 3)
			continue
		}
		out[i] = op.RoPE(x, c)
	}
	return out
}

// moeOps are the ops that send tokens to experts and back.
func moeOps() map[string]spmdOp {
	const local = "the recorded rule splits the rows that indices point at, as if each device's indices were " +
		"its own"
	return map[string]spmdOp{
		"moe_combine":      {build: buildCombine, deviates: local},
		"moe_combine_grad": {build: buildCombineGrad, deviates: local},
		"moe_gate_dispatch": {build: buildDispatch,
			deviates: "the recorded rule gives each device its own part of every expert's capacity, and so other " +
				"tokens are dropped than without a mesh"},
		"moe_gate_dispatch_grad": {build: buildDispatchGrad},
	}
}

// combine returns the weighted sum of the rows of x that each token's index selects.
func combine(x, weights, index *op.Tensor) *op.Tensor {
	if err := firstError(x.Err(), weights.Err(), index.Err()); err != nil {
		return x
	}
	rows := op.IndexSelect(x, 0, op.Flatten(index, 0, -1))
	if rows.Err() != nil {
		return rows
	}
	rows = op.Reshape(rows, index.Dim(0), index.Dim(1), x.Dim(1))
	return op.Einsum("skh,sk->sh", rows, weights)
}

func buildCombine(b *spmdBuild) []*op.Tensor {
	return only(combine(b.float(0), b.float(1), b.index(2)))
}

func buildCombineGrad(b *spmdBuild) []*op.Tensor {
	x, weights := b.float(0), b.float(1)
	return append(gradients(combine(x, weights, b.index(2)), b.float(3), x, weights), nil)
}

// buildDispatch returns the tokens of each expert, up to its capacity, and for each token the weights,
// positions and numbers of its experts.
func buildDispatch(b *spmdBuild) []*op.Tensor {
	x, gate := b.float(0), b.float(1)
	k, capacity, experts := b.Attrs.int("k", 1), b.Attrs.int("capacity", 1), b.Inputs[1].Shape[1]
	if b.given(2) {
		gate = op.Add(gate, b.float(2))
	}
	weights, ids := op.TopK(op.Softmax(gate, -1), k, -1)
	chosen := op.OneHot(op.Flatten(ids, 0, -1), experts)
	if chosen.Err() != nil {
		return only(chosen)
	}
	chosen = op.Cast(chosen, array.I64)
	before := op.Sub(op.CumSum(chosen, 0), chosen)
	place := op.Reshape(op.Cast(op.Sum(op.Cast(op.Mul(before, chosen), array.F64), 1), array.I64), x.Dim(0), k)
	slot := op.Add(op.Mul(ids, op.Const(ids, float64(capacity))), place)
	rows := op.Reshape(op.Expand(op.Unsqueeze(x, 1), x.Dim(0), k, x.Dim(1)), x.Dim(0)*k, x.Dim(1))
	y := op.IndexAdd(b.zeros(array.F32, experts*capacity, x.Dim(1)), 0, op.Flatten(slot, 0, -1), rows)
	counts := op.Cast(op.Sum(op.Cast(chosen, array.F64), 0), array.I64)
	return []*op.Tensor{op.Reshape(y, experts, capacity, x.Dim(1)), weights, op.Transpose(slot, 1, 0), counts,
		ids}
}

// buildDispatchGrad has the operands combine_weights, scatter_index, expert_id, grad_y and
// grad_combine_weights; the gradient of a token is the sum over its positions.
func buildDispatchGrad(b *spmdBuild) []*op.Tensor {
	dy := op.Flatten(b.float(3), 0, 1)
	slot := op.Transpose(b.index(1), 1, 0)
	rows := op.IndexSelect(dy, 0, op.Flatten(slot, 0, -1))
	if rows.Err() != nil {
		return only(rows)
	}
	dx := op.Sum(op.Reshape(rows, slot.Dim(0), slot.Dim(1), dy.Dim(1)), 1)
	return []*op.Tensor{dx, nil}
}

// fallbackOps are the recorded default rules for unknown ops, and for those whose tensors have a batch as
// first dim.
func fallbackOps() map[string]spmdOp {
	return opTable{
		"replicated":            func(b *spmdBuild) []*op.Tensor { return b.opaque(mesh.Unknown) },
		"default_data_parallel": func(b *spmdBuild) []*op.Tensor { return b.opaque(b.batchRule()) },
	}.ops()
}

// opaque returns an op with the case's operands and results, and a rule.
func (b *spmdBuild) opaque(r mesh.Rule) []*op.Tensor {
	o := opaqueOp{rule: r}
	for _, t := range b.Outputs {
		o.out = append(o.out, op.Type{DType: array.F32, Shape: t.Shape})
	}
	return b.builder.Apply(o, b.floats(0, len(b.Inputs)))
}

// batchRule splits the first dim of all tensors together.
func (b *spmdBuild) batchRule() mesh.Rule {
	next := 0
	word := func(t *spmdTensor) string {
		text := "B"
		for range t.Shape[1:] {
			text += string(rune('a'+next)) + "*"
			next++
		}
		return text
	}
	side := func(ts []*spmdTensor) string {
		var words []string
		for _, t := range ts {
			words = append(words, word(t))
		}
		return strings.Join(words, ",")
	}
	return mesh.Rule(side(b.Inputs) + "->" + side(b.Outputs))
}

// opaqueOp is an op of which only the rule is known.
type opaqueOp struct {
	rule mesh.Rule
	out  []op.Type
}

func (opaqueOp) Name() string                                     { return "opaque" }
func (opaqueOp) VJP(in, _, _ []*op.Tensor) []*op.Tensor           { return make([]*op.Tensor, len(in)) }
func (o opaqueOp) Rule([]op.Type) mesh.Rule                       { return o.rule }
func (opaqueOp) Work(_, _ []op.Type) op.Work                      { return op.Work{} }
func (opaqueOp) Eval(*op.Env, []array.Array, []array.Array)       {}
func (opaqueOp) Emit(*hlo.Writer, []hlo.Ref, []op.Type) []hlo.Ref { return nil }
func (opaqueOp) Samples() []op.Sample                             { return nil }

func (o opaqueOp) Infer(in []op.Type) ([]op.Type, error) {
	shapes := func(ts []op.Type) (list [][]int) {
		for _, t := range ts {
			list = append(list, t.Shape)
		}
		return list
	}
	if o.rule == mesh.Unknown {
		return o.out, nil
	}
	if _, err := o.rule.Bind(shapes(in), shapes(o.out)); err != nil {
		return nil, fmt.Errorf("the first dims are not one batch: %w", err)
	}
	return o.out, nil
}
