package galley_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

func device(t *testing.T) *galley.Device {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 2})
	t.Cleanup(d.Close)
	return d
}

// families returns small models of every kind that reads tokens.
func families(t testing.TB) []models.Config {
	t.Helper()
	const latent = `, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 4, "q_lora_rank": 8,
		"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1`
	more := map[string]string{
		"mixtral":      `, "num_local_experts": 4, "num_key_value_heads": 2`,
		"qwen3_moe":    `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16`,
		"ernie4_5_moe": `, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16`,
		"deepseek_v2":  latent, "deepseek_v3": latent + `, "n_group": 2, "topk_group": 1`,
		"mamba2": `, "state_size": 4, "n_groups": 2, "head_dim": 8, "num_heads": 8, "chunk_size": 4`,
		"phi3":   `, "pad_token_id": 0`,
		"gptj":   `, "rotary_dim": 4`,
		"qwen2_moe": `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
			"shared_expert_intermediate_size": 16`,
		"gpt_neox": `, "rotary_pct": 0.5`,
		"olmoe":    `, "num_experts": 4, "num_experts_per_tok": 2`,
		"gpt_oss":  `, "num_local_experts": 4, "num_experts_per_tok": 2`,
		"glm4_moe": `, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16`,
		"stablelm": `, "partial_rotary_factor": 0.5`,
		"electra":  `, "embedding_size": 16`,
	}
	var out []models.Config
	for _, family := range models.Families() {
		if family == "vit" { // images
			continue
		}
		text := `{"model_type": "` + family + `", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
			"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8,
			"max_position_embeddings": 32`
		switch family {
		case "gpt2", "gptj":
			text = `{"model_type": "` + family + `", "vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4,
				"n_positions": 32`
		case "mamba2":
			text = `{"model_type": "mamba2", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2`
		case "rwkv":
			text = `{"model_type": "rwkv", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2`
		case "rwkv7":
			text = `{"model_type": "rwkv7", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "head_dim": 8`
		case "mamba":
			text = `{"model_type": "mamba", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2,
				"state_size": 4`
		case "distilbert":
			text = `{"model_type": "distilbert", "vocab_size": 64, "dim": 32, "hidden_dim": 48, "n_layers": 2,
				"n_heads": 4, "max_position_embeddings": 32`
		case "falcon":
			text = `{"model_type": "falcon", "vocab_size": 64, "hidden_size": 32, "ffn_hidden_size": 48,
				"num_hidden_layers": 2, "num_attention_heads": 4, "num_kv_heads": 2, "new_decoder_architecture": true`
		case "bert", "roberta", "electra", "gpt_neox", "deepseek_v2", "deepseek_v3":
			text = strings.NewReplacer(`"num_key_value_heads": 4, `, "", `"head_dim": 8,`, "").Replace(text)
		}
		c, err := models.ParseConfig([]byte(text + more[family] + "}"))
		if err != nil {
			t.Fatalf("%s: %v", family, err)
		}
		out = append(out, c)
	}
	return out
}

func tokens(step int) array.Array {
	a := array.New(array.I32, 2, 17)
	for i := range a.Len() {
		array.Data[int32](a)[i] = int32((i*i + 7*step + 3) % 64)
	}
	return a
}

// curve trains a model for a few steps and returns its losses and gradient norms.
func curve(t *testing.T, d *galley.Device, c models.Config, mode galley.Mode, dtype array.DType) []float64 {
	t.Helper()
	m, err := models.New(c, nn.Config{Scope: d.NewSession(), Seed: 3, DType: dtype})
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: m.Params(), Mode: mode, ClipNorm: 1,
		Loss: func(b []*galley.Tensor) *galley.Tensor {
			return m.Loss(op.Narrow(b[0], 1, 0, 16), op.Narrow(b[0], 1, 1, 17))
		},
		Optimizer: optim.AdamW{WeightDecay: 0.1}, Schedule: optim.Cosine{LR: 3e-3, Steps: 10, Warmup: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []float64
	for step := range 6 {
		m, err := trainer.Step(tokens(step))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m.Loss, m.GradNorm)
	}
	return out
}

// TestEagerEqualsStatic: dynamic is static, to the bit, for every family and dtype.
func TestEagerEqualsStatic(t *testing.T) {
	d := device(t)
	for _, c := range families(t) {
		for _, dtype := range shortened([]array.DType{array.F32, array.F64, array.BF16}) {
			t.Run(fmt.Sprintf("%s/%v", c.Family, dtype), func(t *testing.T) {
				eager, static := curve(t, d, c, galley.Eager, dtype), curve(t, d, c, galley.Static, dtype)
				for i := range eager {
					if eager[i] != static[i] {
						t.Fatalf("eager %v\nstatic %v", eager, static)
					}
				}
			})
		}
	}
}

// TestMistakes are those that would otherwise train nothing, or something else than was meant.
func TestMistakes(t *testing.T) {
	d := device(t)
	x := d.NewSession().Tensor(array.New(array.F32, 2, 3))
	for _, test := range []struct {
		name string
		grad *galley.Tensor
		want string
	}{
		{"untracked", galley.Grad(op.Sum(op.Exp(x)), x)[0], "is not tracked"},
		{"no scalar", galley.Grad(op.Exp(x.Track()), x.Track())[0], "want a float scalar"},
	} {
		if _, err := galley.Read(test.grad); err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.HasPrefix(err.Error(), "galley_test.go:") {
			t.Errorf("%s: got %v, want a place and %q", test.name, err, test.want)
		}
	}
	for _, test := range []struct {
		name string
		loss func(y *galley.Tensor) *galley.Tensor
		want string
	}{
		{"nil", func(*galley.Tensor) *galley.Tensor { return nil }, "got nil"},
		{"no scalar", func(y *galley.Tensor) *galley.Tensor { return y }, "want a float scalar"},
		{"integer", func(y *galley.Tensor) *galley.Tensor { return op.Cast(op.Sum(y), array.I32) },
			"want a float scalar"},
		{"constant", func(y *galley.Tensor) *galley.Tensor { return op.Const(y, 1) }, "depends on no parameter"},
	} {
		for _, mode := range []galley.Mode{galley.Static, galley.Eager} {
			if err := stepError(t, d, mode, test.loss); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s, %v: got %v, want %q", test.name, mode, err, test.want)
			}
		}
	}
}

// stepError takes one step with a loss that is made of a layer's output.
func stepError(t *testing.T, d *galley.Device, mode galley.Mode,
	loss func(y *galley.Tensor) *galley.Tensor) error {
	in := nn.NewInit(nn.Config{Scope: d.NewSession()})
	l := nn.NewLinear(in, 3, 2)
	trainer, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: in.Params(), Mode: mode,
		Loss: func(b []*galley.Tensor) *galley.Tensor { return loss(l.Forward(b[0])) },
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = trainer.Step(array.New(array.F32, 2, 3))
	return err
}

// TestUserPanics: a panic in the user's own function is not called a bug of Galley's.
func TestUserPanics(t *testing.T) {
	for _, mode := range []galley.Mode{galley.Static, galley.Eager} {
		func() {
			defer func() {
				if what := recover(); what != "mine" {
					t.Errorf("%v: got %v, want the panic itself", mode, what)
				}
			}()
			stepError(t, device(t), mode, func(*galley.Tensor) *galley.Tensor { panic("mine") })
		}()
	}
}

func TestThreadsDoNotMatter(t *testing.T) {
	one := galley.CPU(galley.Config{Threads: 1})
	defer one.Close()
	for _, c := range families(t) {
		a, b := curve(t, one, c, galley.Static, array.F32), curve(t, device(t), c, galley.Static, array.F32)
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("%s: one thread %v\ntwo %v", c.Family, a, b)
			}
		}
	}
}

func TestTraceNamesTheLine(t *testing.T) {
	_, err := galley.Trace("model", []galley.Type{{DType: array.F32, Shape: array.Shape{4, 6}}},
		func(in []*galley.Tensor) []*galley.Tensor {
			return []*galley.Tensor{op.MatMul(in[0], in[0])}
		})
	if err == nil || !strings.Contains(err.Error(), "galley_test.go:") ||
		!strings.Contains(err.Error(), "[4,6]") {
		t.Errorf("got %v", err)
	}
}

func TestWrongArgument(t *testing.T) {
	d := device(t)
	p, err := galley.Trace("f", []galley.Type{{DType: array.F32, Shape: array.Shape{2}}},
		func(in []*galley.Tensor) []*galley.Tensor {
			return []*galley.Tensor{op.Exp(in[0])}
		})
	if err != nil {
		t.Fatal(err)
	}
	e, err := galley.Compile(d, p, galley.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run([]array.Array{array.New(array.F64, 2)}); err == nil ||
		!strings.Contains(err.Error(), "got f64[2], want f32[2]") {
		t.Errorf("got %v", err)
	}
}

func TestDivergedIsAnError(t *testing.T) {
	d := device(t)
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1})
	w := in.Param("w", array.Shape{4}, nn.Constant(1))
	trainer, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: in.Params(),
		Loss: func(b []*galley.Tensor) *galley.Tensor { return op.Sum(op.Log(op.Sub(b[0], w.Value))) },
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = trainer.Step(array.New(array.F32, 4))
	var diverged *galley.DivergedError
	if !errors.As(err, &diverged) || !math.IsNaN(diverged.Metrics.Loss) {
		t.Errorf("got %v", err)
	}
}

// TestBatchesOfTwoSizes: a last, smaller batch needs no other trainer.
func TestBatchesOfTwoSizes(t *testing.T) {
	d := device(t)
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1})
	l := nn.NewLinear(in, 3, 1)
	trainer, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: in.Params(),
		Loss: func(b []*galley.Tensor) *galley.Tensor { return op.Mean(op.Square(l.Forward(b[0]))) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{4, 2, 4} {
		if _, err := trainer.Step(array.New(array.F32, rows, 3)); err != nil {
			t.Error(err)
		}
	}
}

func TestTokenOutOfRange(t *testing.T) {
	d := device(t)
	for _, mode := range []galley.Mode{galley.Eager, galley.Static} {
		m, err := models.New(families(t)[0], nn.Config{Scope: d.NewSession()})
		if err != nil {
			t.Fatal(err)
		}
		trainer, err := galley.NewTrainer(galley.TrainerConfig{
			Device: d, Params: m.Params(), Mode: mode,
			Loss: func(b []*galley.Tensor) *galley.Tensor { return m.Loss(b[0], b[0]) },
		})
		if err != nil {
			t.Fatal(err)
		}
		bad := array.FromSlice([]int32{1, 2, 64, 3}, 1, 4)
		if _, err := trainer.Step(bad); err == nil ||
			!strings.Contains(err.Error(), "index 64 is out of range: want 0 to 63") {
			t.Errorf("got %v", err)
		}
	}
}

// TestEagerMemoryIsFreed: a loop that keeps only its parameters does not grow.
func TestEagerMemoryIsFreed(t *testing.T) {
	d := device(t)
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1})
	l := nn.NewLinear(in, 256, 256)
	trainer, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: in.Params(), Mode: galley.Eager,
		Loss: func(b []*galley.Tensor) *galley.Tensor {
			return op.Mean(op.Square(l.Forward(op.Tanh(l.Forward(b[0])))))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	x := array.New(array.F32, 512, 256) // each step makes several MB
	used := func(steps int) uint64 {
		for range steps {
			if _, err := trainer.Step(x); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC() // twice: pools give their buffers back only then
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	first := used(5)
	if last := used(40); last > first+(1<<20) {
		t.Errorf("heap grew from %d to %d bytes", first, last)
	}
}

func ExampleGrad() {
	d := galley.CPU(galley.Config{})
	defer d.Close()
	x := d.NewSession().Tensor(array.FromSlice([]float64{1, 2}, 2)).Track()
	y := op.Sum(op.Mul(x, op.Mul(x, x)))
	first := galley.Grad(y, x)[0]
	second := galley.Grad(op.Sum(first), x)[0]
	third := galley.Grad(op.Sum(second), x)[0]
	for _, v := range []*galley.Tensor{y, first, second, third} {
		a, err := galley.Read(v)
		fmt.Println(a, err)
	}
	// Output:
	// f64[]{9} <nil>
	// f64[2]{3 12} <nil>
	// f64[2]{6 12} <nil>
	// f64[2]{6 6} <nil>
}

func TestDerivatives(t *testing.T) {
	d := device(t)
	s := d.NewSession()
	x := s.Tensor(array.FromSlice([]float64{0.3, -0.7, 1.1}, 3)).Track()
	v := s.Tensor(array.FromSlice([]float64{1, 2, 3}, 3))
	f := func(xs []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.Sin(xs[0]), op.Square(xs[0])} }
	near := func(name string, got *op.Tensor, want ...float64) {
		t.Helper()
		a, err := galley.Read(got)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			if math.Abs(a.At(i)-w) > 1e-12 {
				t.Errorf("%s: got %v, want %v", name, a, want)
			}
		}
	}
	jvp := op.JVP(f, []*op.Tensor{x}, []*op.Tensor{v})
	near("derivative of sin", jvp[0], math.Cos(0.3), 2*math.Cos(-0.7), 3*math.Cos(1.1))
	near("derivative of square", jvp[1], 0.6, 2*2*-0.7, 3*2*1.1)
	y := op.Sum(op.Mul(x, op.Square(x)))
	near("hessian times v", op.HVP(y, []*op.Tensor{x}, []*op.Tensor{v})[0], 6*0.3, 6*-0.7*2, 6*1.1*3)
	near("hessian diagonal", op.HessianDiagonal(y, x), 6*0.3, 6*-0.7, 6*1.1)
}
