package engine_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/serve/engine"
)

// adapter returns the directory of a random adapter for the model of these tests.
func adapter(t testing.TB, seed uint64) string {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{})
	defer d.Close()
	s := d.NewSession()
	m := model(t, "llama")
	if err := models.Adapt(m, models.AdapterConfig{Rank: 2}, nn.Config{Scope: s, Seed: seed}); err != nil {
		t.Fatal(err)
	}
	for i, p := range nn.Trainable(m.Params()) {
		p.Value = op.MulScalar(op.Normal(s, op.Key{Seed: seed, Stream: uint64(i)}, p.Type.DType, p.Type.Shape), 0.3)
	}
	dir := filepath.Join(t.TempDir(), "adapter")
	if err := models.SaveAdapter(dir, m, models.AdapterFiles{Base: "base"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAdapters: prompts are shared by requests of one adapter only, also of one that has the name of another
// that was unloaded; names that are not loaded and adapters of other models are refused.
func TestAdapters(t *testing.T) {
	e := newEngine(t, model(t, "llama"), engine.Config{Pages: 100})
	first, second := adapter(t, 1), adapter(t, 2)
	prompt := make([]int32, 100)
	ask := func(name string, cached int) (ids []int32) {
		t.Helper()
		got, err := collect(e, engine.Request{Prompt: prompt, Tokens: 12, Adapter: name})
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Cached != cached {
			t.Errorf("%q: %d tokens were cached, want %d", name, got[0].Cached, cached)
		}
		for _, x := range got {
			ids = append(ids, x.ID)
		}
		return ids
	}
	if err := e.LoadAdapter("x", first); err != nil {
		t.Fatal(err)
	}
	plain, one := ask("", 0), ask("x", 0)
	ask("x", 96)
	if err := e.LoadAdapter("x", second); err != nil {
		t.Fatal(err)
	}
	two := ask("x", 0)
	if slices.Equal(plain, one) || slices.Equal(one, two) {
		t.Errorf("got %v, %v, %v: want three answers", plain, one, two)
	}
	if err := e.UnloadAdapter("x"); err != nil {
		t.Fatal(err)
	}
	_, err := collect(e, engine.Request{Prompt: prompt, Tokens: 1, Adapter: "x"})
	if param, ok := engine.IsBadRequest(err); !ok || param != "model" {
		t.Errorf("an adapter that was unloaded: got %v", err)
	}
	if err := e.UnloadAdapter("x"); err == nil {
		t.Error("unloaded twice: got no error")
	}
	other := newEngine(t, model(t, "phi3"), engine.Config{Pages: 10})
	if err := other.LoadAdapter("x", first); err == nil || !strings.Contains(err.Error(), "another model") {
		t.Errorf("an adapter of a llama for a phi3: got %v", err)
	}
}
