package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/serve"
	"github.com/galley-ml/galley/serve/engine"
)

// adapterOf returns the name of a directory below root with an adapter for newModel's model.
func adapterOf(t testing.TB, root string) string {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{})
	defer d.Close()
	s := d.NewSession()
	m, err := models.New(smallConfig(t), nn.Config{Scope: s, Seed: 4})
	if err == nil {
		err = models.Adapt(m, models.AdapterConfig{Rank: 2}, nn.Config{Scope: s, Seed: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range nn.Trainable(m.Params()) {
		p.Value = op.Normal(s, op.Key{Stream: uint64(i)}, p.Type.DType, p.Type.Shape)
	}
	if err := models.SaveAdapter(filepath.Join(root, "tuned"), m,
		models.AdapterFiles{Base: "small"}); err != nil {
		t.Fatal(err)
	}
	return "tuned"
}

// TestAdapters: an adapter is loaded while the server runs, selected by its name, listed, and unloaded.
func TestAdapters(t *testing.T) {
	root := t.TempDir()
	_, url := start(t, serve.Config{Adapters: root}, engine.Config{})
	dir := adapterOf(t, root)
	expect := func(path, body string, status int, want string) string {
		t.Helper()
		code, _, text := post(t, url+path, body)
		if code != status || !strings.Contains(text, want) {
			t.Errorf("%s %s: got %d %s, want %d and %q", path, body, code, text, status, want)
		}
		return text
	}
	ask := `{"prompt": "Call me", "temperature": 0, "model": %q}`
	before := expect("/v1/completions", fmt.Sprintf(ask, "small"), 200, `"model":"small"`)
	expect("/v1/completions", fmt.Sprintf(ask, "mine"), 404, "not served")
	expect("/v1/load_lora_adapter", `{"lora_name": "mine", "lora_path": "../x"}`, 400, "below --adapters")
	expect("/v1/load_lora_adapter", `{"lora_name": "mine", "lora_path": "none"}`, 400, "adapter_config.json")
	expect("/v1/load_lora_adapter", `{"lora_name": "small", "lora_path": "`+dir+`"}`, 400, "is called so")
	expect("/v1/load_lora_adapter", `{"lora_name": "mine", "lora_path": "`+dir+`"}`, 200, "loaded")
	after := expect("/v1/completions", fmt.Sprintf(ask, "mine"), 200, `"model":"mine"`)
	text := regexp.MustCompile(`"text":"[^"]*"`)
	if text.FindString(before) == text.FindString(after) {
		t.Errorf("got %s with the adapter as without", after)
	}
	r, err := http.Get(url + "/v1/models/mine")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if one, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(one), `"parent":"small"`) {
		t.Errorf("got %s, %v, want the adapter", one, err)
	}
	expect("/v1/unload_lora_adapter", `{"lora_name": "mine"}`, 200, "unloaded")
	expect("/v1/unload_lora_adapter", `{"lora_name": "mine"}`, 404, "not loaded")
	expect("/v1/completions", fmt.Sprintf(ask, "mine"), 404, "not served")
	_, closed := start(t, serve.Config{}, engine.Config{})
	url = closed
	expect("/v1/load_lora_adapter", `{"lora_name": "mine", "lora_path": "x"}`, 403, "--adapters")
}
