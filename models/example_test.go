package models_test

import (
	"fmt"

	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// A model without a scope has only shapes: for tracing and planning.
func ExampleNew() {
	config := models.Tiny(1000)
	config.Layers = 1
	m, err := models.New(config, nn.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range m.Params() {
		fmt.Println(p.Name, p.Type)
	}
	// Output:
	// model.embed_tokens.weight f32[1000,128]
	// model.layers.0.self_attn.q_proj.weight f32[128,128]
	// model.layers.0.self_attn.k_proj.weight f32[64,128]
	// model.layers.0.self_attn.v_proj.weight f32[64,128]
	// model.layers.0.self_attn.o_proj.weight f32[128,128]
	// model.layers.0.mlp.gate_proj.weight f32[352,128]
	// model.layers.0.mlp.up_proj.weight f32[352,128]
	// model.layers.0.mlp.down_proj.weight f32[128,352]
	// model.layers.0.input_layernorm.weight f32[128]
	// model.layers.0.post_attention_layernorm.weight f32[128]
	// model.norm.weight f32[128]
}

func ExampleParseConfig() {
	_, err := models.ParseConfig([]byte(`{"model_type": "llama", "vocab_size": 512, "hidden_size": 64,
		"intermediate_size": 176, "num_hidden_layers": 4, "num_attention_heads": 8, "attn_logit_softcapping": 30}`))
	fmt.Println(err)
	// Output:
	// key "attn_logit_softcapping": not supported: it may change the model: got 30
}
