package layout

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/strategy"
)

// batchRows defines how a batch is split: its examples by dp and by ep, whose devices share experts, and
// their sequences by cp. Of the rows whose axes a mesh has, the first counts.
var batchRows = []planRow{
	{"batch*", "@[dp.ep,cp]"}, {"batch*", "@[dp.ep,?]"}, {"batch*", "@[dp,cp]"}, {"batch*", "@[dp,?]"},
	{"batch*", "@[ep,cp]"}, {"batch*", "@[ep,?]"}, {"batch*", "@[?,cp]"},
	{"*.experts.gate_up_proj", "@[ep,_,_]"},
	{"*.experts.down_proj", "@[ep,_,_]"},
}

// namedPlan is a named set of annotations; those that need an axis which a mesh lacks are omitted, except for
// Needs.
type namedPlan struct {
	name  string
	needs string
	rows  []planRow
}

type planRow struct{ pattern, sharding string }

// plans holds the built-in sets of annotations. A linear layer's weight is [out, in] in llama's families and
// [in, out] in GPT-2: the output of a block's first products and the input of its last are split.
var plans = []namedPlan{
	{"none", "", nil},
	{"data", strategy.DataAxis, batchRows},
	{"megatron", strategy.TensorAxis, append(slices.Clip(batchRows), []planRow{
		{"*.embed_tokens.weight", "@[tp,_]"},
		{"lm_head.weight", "@[tp,_]"},
		{"*.[qkv]_proj.weight", "@[tp,_]"},
		{"*.[qkv]_proj.bias", "@[tp]"},
		{"*.o_proj.weight", "@[_,tp]"},
		{"*.mlp.gate_proj.weight", "@[tp,_]"},
		{"*.mlp.gate_proj.bias", "@[tp]"},
		{"*.mlp.up_proj.weight", "@[tp,_]"},
		{"*.mlp.up_proj.bias", "@[tp]"},
		{"*.mlp.down_proj.weight", "@[_,tp]"},
		{"*.experts.gate_up_proj", "@[tp,_,_]"},
		{"*.experts.down_proj", "@[tp,_,_]"},
		{"*.wte.weight", "@[tp,_]"},
		{"*.attn.out_proj.weight", "@[_,tp]"},
		{"*.mlp.fc_in.weight", "@[tp,_]"},
		{"*.mlp.fc_in.bias", "@[tp]"},
		{"*.mlp.fc_out.weight", "@[_,tp]"},
		{"*.layers.*.mlp.c_fc.weight", "@[tp,_]"},
		{"*.layers.*.mlp.c_proj.weight", "@[_,tp]"},
		{"*.attn.c_attn.weight", "@[_,tp]"},
		{"*.attn.c_attn.bias", "@[tp]"},
		{"*.attn.c_proj.weight", "@[tp,_]"},
		{"*.mlp.c_fc.weight", "@[_,tp]"},
		{"*.mlp.c_fc.bias", "@[tp]"},
		{"*.mlp.c_proj.weight", "@[tp,_]"},
		// Adapters of what is split by outputs and by inputs.
		{"*.[qkv]_proj.lora_B.weight", "@[tp,_]"},
		{"*.[qkv]_proj.lora_magnitude_vector.weight", "@[tp]"},
		{"*.o_proj.lora_A.weight", "@[_,tp]"},
		{"*.mlp.gate_proj.lora_B.weight", "@[tp,_]"},
		{"*.mlp.gate_proj.lora_magnitude_vector.weight", "@[tp]"},
		{"*.mlp.up_proj.lora_B.weight", "@[tp,_]"},
		{"*.mlp.up_proj.lora_magnitude_vector.weight", "@[tp]"},
		{"*.mlp.down_proj.lora_A.weight", "@[_,tp]"},
		{"*.c_attn.lora_B.weight", "@[tp,_]"},
		{"*.c_fc.lora_B.weight", "@[tp,_]"},
		{"*.c_proj.lora_A.weight", "@[_,tp]"},
		// Latent attention, fused projections and shared experts.
		{"*.q_b_proj.weight", "@[tp,_]"},
		{"*.kv_b_proj.weight", "@[tp,_]"},
		{"*.qkv_proj.weight", "@[tp,_]"},
		{"*.mlp.gate_up_proj.weight", "@[tp,_]"},
		{"*.shared_experts.gate_proj.weight", "@[tp,_]"},
		{"*.shared_experts.up_proj.weight", "@[tp,_]"},
		{"*.shared_experts.down_proj.weight", "@[_,tp]"},
		{"*.shared_expert.gate_proj.weight", "@[tp,_]"},
		{"*.shared_expert.up_proj.weight", "@[tp,_]"},
		{"*.shared_expert.down_proj.weight", "@[_,tp]"},
		// GPT-NeoX and Phi.
		{"*.embed_in.weight", "@[tp,_]"},
		{"embed_out.weight", "@[tp,_]"},
		{"*.query_key_value.weight", "@[tp,_]"},
		{"*.query_key_value.bias", "@[tp]"},
		{"*.layers.*.attention.dense.weight", "@[_,tp]"},
		{"*.self_attn.dense.weight", "@[_,tp]"},
		{"*.self_attention.dense.weight", "@[_,tp]"},
		{"*.dense_h_to_4h.weight", "@[tp,_]"},
		{"*.dense_h_to_4h.bias", "@[tp]"},
		{"*.dense_4h_to_h.weight", "@[_,tp]"},
		{"*.mlp.fc1.weight", "@[tp,_]"},
		{"*.mlp.fc1.bias", "@[tp]"},
		{"*.mlp.fc2.weight", "@[_,tp]"},
		// Encoders, RWKV and Mamba.
		{"*.word_embeddings.weight", "@[tp,_]"},
		{"*.embeddings.weight", "@[tp,_]"},
		{"head.weight", "@[tp,_]"},
		{"*.feed_forward.value.weight", "@[_,tp]"},
		{"*.attention.receptance.weight", "@[tp,_]"},
		{"*.attention.output.weight", "@[_,tp]"},
		{"*.query.weight", "@[tp,_]"},
		{"*.query.bias", "@[tp]"},
		{"*.key.weight", "@[tp,_]"},
		{"*.key.bias", "@[tp]"},
		{"*.value.weight", "@[tp,_]"},
		{"*.value.bias", "@[tp]"},
		{"*.intermediate.dense.weight", "@[tp,_]"},
		{"*.intermediate.dense.bias", "@[tp]"},
		{"*.output.dense.weight", "@[_,tp]"},
		{"*.mixer.in_proj.weight", "@[tp,_]"},
		{"*.mixer.out_proj.weight", "@[_,tp]"},
	}...)},
}

// Plans returns the names of the built-in sets of annotations.
func Plans() []string {
	var names []string
	for _, p := range plans {
		names = append(names, p.name)
	}
	return names
}

// Plan returns a built-in set of annotations for a training step of one of the model families:
//
//	data      the batch by axis dp, its sequences by cp, experts by ep, which then splits the batch, too
//	megatron  also the heads, the inner width and the vocabulary by axis tp: column, row and vocabulary parallel
//	none      nothing
//
// Axes that the mesh lacks are omitted, as are annotations without parameters in the program.
func Plan(name string, p *ir.Func, m *mesh.Mesh) ([]mesh.Annotation, error) {
	i := slices.IndexFunc(plans, func(x namedPlan) bool { return x.name == name })
	if i < 0 {
		return nil, fmt.Errorf("plan %q: want one of %v", name, Plans())
	}
	if _, ok := m.Axis(plans[i].needs); plans[i].needs != "" && !ok {
		return nil, fmt.Errorf("plan %s: mesh %v has no axis %s", name, m, plans[i].needs)
	}
	var list []mesh.Annotation
	for _, r := range plans[i].rows {
		s, err := mesh.ParseSharding(r.sharding)
		if err != nil {
			return nil, err
		}
		a := mesh.Annotation{Pattern: r.pattern, Sharding: s}
		if MatchesAny(a, p) && known(m, s.Spec.Used()) {
			list = append(list, a)
		}
	}
	return list, nil
}

// known reports whether a mesh has all axes.
func known(m *mesh.Mesh, axes mesh.Axes) bool {
	return !slices.ContainsFunc(axes, func(s mesh.Sub) bool { _, ok := m.Axis(s.Axis); return !ok })
}

// MatchesAny reports whether a program has a parameter that an annotation matches.
func MatchesAny(a mesh.Annotation, p *ir.Func) bool {
	return slices.ContainsFunc(p.Params(), func(v *ir.Value) bool { return a.Matches(v.Name()) })
}
