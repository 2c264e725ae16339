package models

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/google/go-cmp/cmp"
)

// smallModel returns a model with random weights in which norms and biases are random too.
func smallModel(t *testing.T, family, more string, in nn.Config) Model {
	t.Helper()
	m, err := New(parse(t, small(family, more)), in)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSaveLoad(t *testing.T) {
	more := map[string]string{
		"llama":   `, "rope_scaling": {"type": "linear", "factor": 2}, "attention_bias": true, "eos_token_id": 2`,
		"mistral": `, "num_key_value_heads": 2, "sliding_window": 5`,
		"qwen2":   `, "num_key_value_heads": 1, "tie_word_embeddings": true`,
		"qwen3":   `, "head_dim": 6, "use_sliding_window": true, "max_window_layers": 1`,
		"mixtral": `, "num_local_experts": 3`,
		"gpt2":    `, "resid_pdrop": 0.1`,
	}
	for _, family := range Families() {
		if _, ok := more[family]; !ok {
			more[family] = livelyKeys()[family]
		}
		for _, dtype := range []array.DType{array.F32, array.BF16} {
			t.Run(family+" "+dtype.String(), func(t *testing.T) {
				if testing.Short() && (family != "mixtral" || dtype != array.BF16) {
					t.Skip("families differ in numbers only")
				}
				s := newSession(t)
				in := nn.Config{Scope: s, DType: dtype, Seed: 3}
				m := smallModel(t, family, more[family], in)
				dir := filepath.Join(t.TempDir(), "new")
				if err := Save(dir, m, SaveConfig{ShardBytes: 5000}); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(filepath.Join(dir, "model.safetensors.index.json")); err != nil {
					t.Errorf("want shards: %v", err)
				}
				back, err := Load(dir, nn.Config{Scope: s, DType: dtype})
				if err != nil {
					t.Fatal(err)
				}
				sameModel(t, m, back)
				sameStreamed(t, m, dir)
			})
		}
	}
}

// sameStreamed saves a model one parameter at a time, the last first, and compares the files.
func sameStreamed(t *testing.T, m Model, want string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "streamed")
	err := Save(dir, m, SaveConfig{ShardBytes: 5000, Each: func(f func(*nn.Param, array.Array) error) error {
		for _, p := range slices.Backward(m.Params()) {
			if err := f(p, read(t, p.Value)); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		a, _ := os.ReadFile(filepath.Join(want, f.Name()))
		if b, err := os.ReadFile(filepath.Join(dir, f.Name())); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs, %v", f.Name(), err)
		}
	}
}

func sameModel(t *testing.T, want, got Model) {
	t.Helper()
	config := want.Config()
	config.DType = want.Params()[0].Type.DType
	if diff := cmp.Diff(config, got.Config()); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if len(want.Params()) != len(got.Params()) {
		t.Fatalf("got %d parameters, want %d", len(got.Params()), len(want.Params()))
	}
	for i, p := range want.Params() {
		q := got.Params()[i]
		if p.Name != q.Name || !bytes.Equal(read(t, p.Value).Bytes(), read(t, q.Value).Bytes()) {
			t.Errorf("parameter %d: %q is not %q", i, q.Name, p.Name)
		}
	}
}

// TestSaveAgain writes over an earlier model, and leaves nothing else behind.
func TestSaveAgain(t *testing.T) {
	s, dir := newSession(t), t.TempDir()
	for _, limit := range []int64{2000, 0} {
		m := smallModel(t, "llama", "", nn.Config{Scope: s, Seed: uint64(limit)})
		if err := Save(dir, m, SaveConfig{ShardBytes: limit}); err != nil {
			t.Fatal(err)
		}
		back, err := Load(dir, nn.Config{Scope: s})
		if err != nil {
			t.Fatal(err)
		}
		sameModel(t, m, back)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("got files %v, %v, want config.json and model.safetensors", files, err)
	}
}

func TestSaveShapesOnly(t *testing.T) {
	m := smallModel(t, "llama", "", nn.Config{})
	dir := filepath.Join(t.TempDir(), "new")
	if err := Save(dir, m, SaveConfig{}); err == nil ||
		!strings.Contains(err.Error(), `"model.embed_tokens.weight" has no value`) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a directory is left behind")
	}
}

// rewrite saves a small model and passes its tensors through change.
func rewrite(t *testing.T, family, more string,
	change func([]safetensors.Named) []safetensors.Named) (dir string, m Model) {
	t.Helper()
	dir, m = t.TempDir(), smallModel(t, family, more, nn.Config{Scope: newSession(t)})
	if err := Save(dir, m, SaveConfig{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []safetensors.Named
	for _, name := range f.Names() {
		a, err := f.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, safetensors.Named{Name: name, Array: a})
	}
	f.Close()
	if err := safetensors.Write(path, change(tensors), nil); err != nil {
		t.Fatal(err)
	}
	return dir, m
}

func extra(name string, shape ...int) func([]safetensors.Named) []safetensors.Named {
	return func(ts []safetensors.Named) []safetensors.Named {
		return append(ts, safetensors.Named{Name: name, Array: array.New(array.F32, shape...)})
	}
}

func renamed(change func(string) string) func([]safetensors.Named) []safetensors.Named {
	return func(ts []safetensors.Named) []safetensors.Named {
		for i := range ts {
			ts[i].Name = change(ts[i].Name)
		}
		return ts
	}
}

func dropped(name string) func([]safetensors.Named) []safetensors.Named {
	return func(ts []safetensors.Named) []safetensors.Named {
		var kept []safetensors.Named
		for _, n := range ts {
			if n.Name != name {
				kept = append(kept, n)
			}
		}
		return kept
	}
}

// TestLoadForms reads checkpoints whose names are those of other versions of transformers.
func TestLoadForms(t *testing.T) {
	trim := func(prefix string) func(string) string {
		return func(name string) string { return strings.TrimPrefix(name, prefix) }
	}
	for _, test := range []struct {
		name, family, more string
		change             func([]safetensors.Named) []safetensors.Named
	}{
		{"base model", "gpt2", "", renamed(trim("transformer."))},
		{"mask", "gpt2", "", extra("transformer.h.0.attn.bias", 1, 1, 4, 4)},
		{"masked bias", "gpt2", "", extra("h.2.attn.masked_bias")},
		{"head beside tied", "gpt2", "", extra("lm_head.weight", 40, 16)},
		{"frequencies", "llama", "", extra("model.layers.0.self_attn.rotary_emb.inv_freq", 2)},
		{"head for tied", "qwen2", `, "tie_word_embeddings": true`,
			renamed(func(n string) string { return strings.Replace(n, "model.embed_tokens.weight", headName, 1) })},
		{"stacked experts", "mixtral", `, "num_local_experts": 2`, stackExperts},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, want := rewrite(t, test.family, test.more, test.change)
			got, err := Load(dir, nn.Config{Scope: newSession(t)})
			if err != nil {
				t.Fatal(err)
			}
			sameModel(t, want, got)
		})
	}
}

// stackExperts puts experts together under the names that parameters have in memory.
func stackExperts(ts []safetensors.Named) []safetensors.Named {
	c := Config{Family: "mixtral", Experts: 2}
	byName := map[string]array.Array{}
	for _, n := range ts {
		byName[strings.Replace(n.Name, ".block_sparse_moe.gate.", ".mlp.gate.", 1)] = n.Array
	}
	for _, layer := range []string{"0", "1", "2"} {
		for name, shape := range map[string][]int{"gate_up_proj": {2, 48, 16}, "down_proj": {2, 16, 24}} {
			name = "model.layers." + layer + ".mlp.experts." + name
			a := array.New(array.F32, shape...)
			rest := a.Bytes()
			for _, part := range expertParts(c, name) {
				rest = rest[copy(rest, byName[part].Bytes()):]
				delete(byName, part)
			}
			byName[name] = a
		}
	}
	ts = nil
	for name, a := range byName {
		ts = append(ts, safetensors.Named{Name: name, Array: a})
	}
	return ts
}

func TestLoadErrors(t *testing.T) {
	for _, test := range []struct {
		name, family string
		change       func([]safetensors.Named) []safetensors.Named
		want         string
	}{
		{"missing", "llama", dropped("model.layers.1.mlp.up_proj.weight"),
			`tensor "model.layers.1.mlp.up_proj.weight": missing`},
		{"missing head", "llama", dropped(headName), `tensor "lm_head.weight": missing`},
		{"missing expert", "mixtral", dropped("model.layers.1.block_sparse_moe.experts.7.w3.weight"),
			`tensor "model.layers.1.block_sparse_moe.experts.7.w3.weight": missing`},
		{"unexpected", "llama", extra("model.layers.3.mlp.up_proj.weight", 24, 16),
			`tensor "model.layers.3.mlp.up_proj.weight": not part of a llama model`},
		{"bias", "qwen3", extra("model.layers.0.self_attn.q_proj.bias", 16), "not part of a qwen3 model"},
		{"shape", "llama", func(ts []safetensors.Named) []safetensors.Named {
			return extra("model.norm.weight", 17)(dropped("model.norm.weight")(ts))
		}, `tensor "model.norm.weight": got shape [17], want [16]`},
		{"dtype", "llama", func(ts []safetensors.Named) []safetensors.Named {
			return append(dropped("model.norm.weight")(ts),
				safetensors.Named{Name: "model.norm.weight", Array: array.New(array.I32, 16)})
		}, `tensor "model.norm.weight": got i32, want floats`},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, _ := rewrite(t, test.family, "", test.change)
			for _, in := range []nn.Config{{}, {Scope: newSession(t)}} {
				_, err := Load(dir, in)
				if err == nil || !strings.Contains(err.Error(), test.want) ||
					!strings.Contains(err.Error(), "model.safetensors") {
					t.Errorf("got %v, want %s", err, test.want)
				}
			}
		})
	}
}

func TestLoadCasts(t *testing.T) {
	dir, m := rewrite(t, "mixtral", "", renamed(func(n string) string { return n }))
	s := newSession(t)
	half, err := Load(dir, nn.Config{Scope: s, DType: array.BF16})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range half.Params() {
		want := read(t, op.Cast(m.Params()[i].Value, array.BF16))
		if !bytes.Equal(read(t, p.Value).Bytes(), want.Bytes()) {
			t.Errorf("%s is not the cast of what was saved", p.Name)
		}
	}
}

func TestFirstValues(t *testing.T) {
	m := smallModel(t, "gpt2", `, "n_embd": 64, "initializer_range": 0.5`,
		nn.Config{Scope: newSession(t), Seed: 1})
	for _, p := range m.Params() {
		xs := read(t, p.Value).Float64s()
		mean, std := moments(xs)
		want, spread := 0.0, 0.0
		switch {
		case strings.HasSuffix(p.Name, ".bias"):
		case strings.Contains(p.Name, "ln_"):
			want = 1
		case strings.Contains(p.Name, "c_proj"):
			spread = 0.5 / math.Sqrt(6)
		default:
			spread = 0.5
		}
		if math.Abs(mean-want) > 0.05 || math.Abs(std-spread) > 0.05*spread {
			t.Errorf("%s: mean %v, deviation %v: want %v, %v", p.Name, mean, std, want, spread)
		}
	}
}

func moments(xs []float64) (mean, std float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		std += (x - mean) * (x - mean) / float64(len(xs))
	}
	return mean, math.Sqrt(std)
}

// twice is a model that cannot be saved: two of its parameters have one name.
type twice struct{ Model }

func (m twice) Params() []*nn.Param { return append(m.Model.Params(), m.Model.Params()[0]) }

func TestSaveLeavesNothing(t *testing.T) {
	m := smallModel(t, "llama", "", nn.Config{Scope: newSession(t)})
	top := t.TempDir()
	if err := Save(filepath.Join(top, "new", "dir"), twice{m}, SaveConfig{Tokenizer: []byte("{}")}); err == nil {
		t.Fatal("saved two tensors of one name")
	}
	if left, _ := os.ReadDir(top); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	dir := filepath.Join(top, "kept")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Save(dir, twice{m}, SaveConfig{}); err == nil {
		t.Fatal("saved two tensors of one name")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v: want the directory as it was", left, err)
	}
}

func TestSaveTokenizer(t *testing.T) {
	dir := t.TempDir()
	m := smallModel(t, "llama", "", nn.Config{Scope: newSession(t)})
	if err := Save(dir, m, SaveConfig{Tokenizer: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "tokenizer.json")); err != nil || string(text) != "{}" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestLimit(t *testing.T) {
	for family, want := range map[string]int{"gpt2": 32, "llama": 0} {
		if got := (Config{Family: family, Positions: 32}).Limit(); got != want {
			t.Errorf("%s: got %d, want %d", family, got, want)
		}
	}
}
