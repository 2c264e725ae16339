package paged_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/paged/pagedtest"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// adapter writes an adapter with random changes of a model's linear layers, and merges it into the model.
func adapter(t *testing.T, m models.Model, s *cpu.Session, c models.AdapterConfig, seed uint64) (dir string) {
	t.Helper()
	if err := models.Adapt(m, c, nn.Config{Scope: s, Seed: seed}); err != nil {
		t.Fatal(err)
	}
	for i, p := range nn.Trainable(m.Params()) {
		noise := op.Normal(s, op.Key{Seed: seed, Stream: uint64(i)}, p.Type.DType, p.Type.Shape)
		p.Value = op.Add(p.Value, op.MulScalar(noise, 0.2)).Detach().Track()
	}
	dir = filepath.Join(t.TempDir(), "adapter")
	if err := models.SaveAdapter(dir, m, models.AdapterFiles{Base: "base"}); err != nil {
		t.Fatal(err)
	}
	if err := models.Merge(m); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAdapter: a sequence with an adapter has the logits of the model into which that is merged, beside one
// without in the same step, on one device and on two; an adapter of another model is refused.
func TestAdapter(t *testing.T) {
	for _, c := range []struct {
		family string
		models.AdapterConfig
	}{
		{"llama", models.AdapterConfig{Rank: 3, Alpha: 5}},
		{"qwen2", models.AdapterConfig{Rank: 2, DoRA: true}},
		{"gpt2", models.AdapterConfig{Rank: 4, DoRA: true}},
		{"phi3", models.AdapterConfig{Rank: 3, RankStabilized: true}},
		{"deepseek_v3", models.AdapterConfig{Rank: 2, Targets: []string{"q_a_proj", "kv_b_proj", "o_proj"}}},
	} {
		s := session(t)
		plain := pagedtest.Model(t, c.family, nn.Config{Scope: s, Seed: 7})
		merged := pagedtest.Model(t, c.family, nn.Config{Scope: s, Seed: 7})
		layers, err := models.ReadAdapter(adapter(t, merged, s, c.AdapterConfig, 3), plain)
		if err != nil {
			t.Fatal(err)
		}
		ids := tokens(rand.New(rand.NewPCG(1, 1)), 40, 37)
		want, err := cpu.Read(merged.Forward(s.Tensor(array.FromSlice(ids, 1, len(ids)))))
		if err != nil {
			t.Fatal(err)
		}
		for _, tp := range []int{1, 2} {
			p, err := paged.New(plain, paged.Config{TP: tp, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			a, err := p.Adapter(layers)
			if err != nil {
				t.Fatal(err)
			}
			base := append([]float32(nil), alone(p, ids)...)
			step := paged.NewStep(p, paged.NewCache(p, 6), 80)
			got := step.Run([]paged.Sequence{
				{
					Pages:  []int32{0, 1, 2},
					Tokens: ids,
					Want:   40,
				}, {Pages: []int32{3, 4, 5}, Tokens: ids, Want: 40, Adapter: a}})
			far := 0.0
			for i, x := range array.Data[float32](want) {
				if math.Float32bits(got[i]) != math.Float32bits(base[i]) {
					t.Fatalf("%s tp %d: without the adapter, logit %d: got %v, want %v", c.family, tp, i, got[i], base[i])
				}
				y := got[len(base)+i]
				if d := math.Abs(float64(x - y)); d > 5e-4*(1+math.Abs(float64(x))) {
					t.Fatalf("%s tp %d: logit %d: got %v, want %v", c.family, tp, i, y, x)
				}
				far = max(far, math.Abs(float64(x-base[i])))
			}
			few := step.Run([]paged.Sequence{{Pages: []int32{0, 1, 2}, Tokens: ids, Want: 2, Adapter: a},
				{Pages: []int32{3, 4, 5}, Tokens: ids, Want: 3}})
			for i, x := range few[2*37:] {
				if math.Float32bits(x) != math.Float32bits(base[37*37+i]) {
					t.Fatalf("%s tp %d: logit %d of few: got %v, want %v", c.family, tp, i, x, base[37*37+i])
				}
			}
			for i, y := range few[:2*37] {
				if x := array.Data[float32](want)[38*37+i]; math.Abs(float64(x-y)) > 5e-4*(1+math.Abs(float64(x))) {
					t.Fatalf("%s tp %d: logit %d of few: got %v, want %v", c.family, tp, i, y, x)
				}
			}
			if far < 0.1 {
				t.Errorf("%s: the adapter changes logits by %v: want a change", c.family, far)
			}
		}
	}
	s := session(t)
	dir := adapter(t, pagedtest.Model(t, "gpt2", nn.Config{Scope: s, Seed: 7}), s, models.AdapterConfig{Rank: 2},
		3)
	if _, err := models.ReadAdapter(dir, pagedtest.Model(t, "llama", nn.Config{})); err == nil ||
		!strings.Contains(err.Error(), "another model") {
		t.Errorf("an adapter of gpt2 for a llama: got %v", err)
	}
}
