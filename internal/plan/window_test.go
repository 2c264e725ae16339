package plan

import "testing"

// TestWindowLayers says that a window is priced in the layers that have it: a model with windows in some lies
// between one with windows in all layers and one with none, at their parts.
func TestWindowLayers(t *testing.T) {
	core := func(window, layers int) float64 {
		m := llama("x", 6, 1024, 8, 8, 2048, 1024)
		m.Window, m.WindowLayers = window, layers
		e, err := NewEstimator(Workload{Model: m, Batch: 8, Seq: 8192}, mustCluster(t, "8 H100"), Published())
		if err != nil {
			t.Fatal(err)
		}
		c, err := e.layer(layerKey{tp: 1, cp: 1, ep: 1, etp: 1, micro: 1})
		if err != nil {
			t.Fatal(err)
		}
		return c.core
	}
	all, none, some := core(512, 0), core(0, 0), core(512, 4)
	if want := (4*all + 2*none) / 6; all >= none/2 || some < want*0.999 || some > want*1.001 {
		t.Errorf("attention takes %g s with windows, %g without, %g with four of six; want %g", all, none, some,
			want)
	}
}

// TestWindowsOf says which layers of a config.json have the window.
func TestWindowsOf(t *testing.T) {
	const rest = `"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 12, "num_attention_heads": 4,
		"head_dim": 16, "vocab_size": 64, "sliding_window": 8`
	for text, want := range map[string][2]int{
		`{"model_type": "mistral", ` + rest + `}`:                                                   {8, 0},
		`{"model_type": "gemma2", ` + rest + `}`:                                                    {8, 6},
		`{"model_type": "gemma3_text", ` + rest + `}`:                                               {8, 10},
		`{"model_type": "gemma3_text", "sliding_window_pattern": 4, ` + rest + `}`:                  {8, 9},
		`{"model_type": "qwen2", "use_sliding_window": false, ` + rest + `}`:                        {0, 0},
		`{"model_type": "x", "layer_types": ["sliding_attention", "full_attention"], ` + rest + `}`: {8, 1},
		`{"model_type": "x", "layer_types": ["full_attention"], ` + rest + `}`:                      {0, 0},
	} {
		m, err := ParseModel("x", []byte(text))
		if err != nil || [2]int{m.Window, m.WindowLayers} != want {
			t.Errorf("%s: got %d in %d layers, %v; want %v", text, m.Window, m.WindowLayers, err, want)
		}
	}
}
