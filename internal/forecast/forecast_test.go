package forecast_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/strategy"
)

// configs are files of families with sizes of their own, each with what makes its layers differ from llama's.
var configs = []string{
	`"model_type": "llama", "num_key_value_heads": 2, "intermediate_size": 96`,
	`"model_type": "mistral", "num_attention_heads": 16, "intermediate_size": 96`,
	`"model_type": "qwen2", "num_key_value_heads": 2, "intermediate_size": 96, "tie_word_embeddings": true`,
	`"model_type": "mixtral", "num_key_value_heads": 4, "intermediate_size": 48, "num_local_experts": 4, "num_experts_per_tok": 2`,
	`"model_type": "gemma2", "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96`,
	`"model_type": "deepseek_v3", "num_key_value_heads": 4, "intermediate_size": 160, "moe_intermediate_size": 48,
	 "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2,
	 "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12`,
}

func config(body string) []byte {
	head := `"num_hidden_layers": 3, "hidden_size": 64, "vocab_size": 128, "max_position_embeddings": 64`
	if !strings.Contains(body, "num_attention_heads") {
		head += `, "num_attention_heads": 4`
	}
	return []byte("{" + head + ", " + body + "}")
}

// TestShape: what the planner reads of a config.json, with what the file leaves out, has the parameters that
// the model has: heads of keys by the family's defaults, latent attention by its ranks.
func TestShape(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	for _, body := range configs {
		c, err := models.ParseConfig(config(body))
		if err != nil {
			t.Fatal(err)
		}
		m, err := models.New(c, nn.Config{Scope: d.NewSession(), Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, p := range m.Params() {
			want += p.Type.Shape.Len()
		}
		read, err := forecast.ReadModel(c.Family, config(body))
		if err != nil {
			t.Fatal(err)
		}
		shape, err := forecast.Shape(c)
		if err != nil || shape != read {
			t.Errorf("%s: of a config %+v, of its file %+v, %v", c.Family, shape, read, err)
		}
		// Norms inside of attention, and the bias of a router, are too few to be priced.
		if got := shape.Params(); got > float64(want) || got < 0.99*float64(want) {
			t.Errorf("%s: %.0f parameters are priced, the model has %d", c.Family, got, want)
		}
		if shape.MLA() != strings.Contains(body, "kv_lora_rank") {
			t.Errorf("%s: latent attention: %v", c.Family, shape.MLA())
		}
	}
}

// measured returns a calibration of this machine with rates that are a part of the usual ones.
func measured(t *testing.T, devices int, part float64) []byte {
	t.Helper()
	hw := cluster.Local(cluster.LocalConfig{Devices: devices})
	dev := &hw.Groups[0].Device
	dev.Bandwidth *= part
	dev.Rates[0].Peak *= part
	dev.Rates[0].Measured = dev.Rates[0].Peak
	c := plan.Calibration{Level: 1, Cluster: string(hw.YAML()),
		Devices: []plan.Curve{{Device: dev.Name, Ceiling: 1}}}
	return c.YAML()
}

// TestMeasuredCluster: a run is planned for the machine that was measured, also where other numbers of
// devices share it.
func TestMeasuredCluster(t *testing.T) {
	c, err := models.ParseConfig(config(configs[0]))
	if err != nil {
		t.Fatal(err)
	}
	run := forecast.Run{Model: c, Batch: 64, Seq: 64, Devices: 4}
	price := func(devices int, calibration []byte) float64 {
		run.Calibration = calibration
		d, err := forecast.Price(run, strategy.Strategy{DP: devices})
		if err != nil {
			t.Fatal(err)
		}
		return d.Seconds()
	}
	for _, devices := range []int{1, 2, 4} {
		fast, slow := price(devices, measured(t, 4, 1)), price(devices, measured(t, 4, 0.01))
		if slow < 5*fast {
			t.Errorf("%d devices: %g s a step on a machine of a hundredth of the rate, %g s on the usual one", devices,
				slow, fast)
		}
	}
	run.Calibration = measured(t, 4, 0.01)
	slow, err := forecast.Auto(run)
	if err != nil {
		t.Fatal(err)
	}
	run.Calibration = measured(t, 4, 1)
	fast, err := forecast.Auto(run)
	if err != nil {
		t.Fatal(err)
	}
	if slow.Step < 5*fast.Step || slow.Alone < 5*fast.Alone {
		t.Errorf("planned %g and %g s for the slow machine, %g and %g s for the usual one", slow.Step, slow.Alone,
			fast.Step, fast.Alone)
	}
	other := plan.Calibration{Level: 1, Cluster: "8 H100-SXM"}
	run.Calibration = other.YAML()
	if _, err := forecast.Auto(run); err == nil || !strings.Contains(err.Error(), "measure this machine") {
		t.Errorf("a calibration of another machine: %v", err)
	}
}

func ExampleReadModel() {
	m, err := forecast.ReadModel("small", []byte(`{"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 256,
		"num_attention_heads": 16, "intermediate_size": 512, "vocab_size": 1000, "num_local_experts": 4, "num_experts_per_tok": 2}`))
	fmt.Println(m.KVHeads, err)
	// Output: 8 <nil>
}
