package paged_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/paged/pagedtest"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

func session(t *testing.T) *cpu.Session {
	d := cpu.NewDevice(cpu.Config{})
	t.Cleanup(d.Close)
	return d.NewSession()
}

// TestFamilies: every family that models continue token by token is served or refused by name, and the logits
// of those that are served are those of their own forward pass.
func TestFamilies(t *testing.T) {
	for _, family := range models.Families() {
		t.Run(family, func(t *testing.T) {
			if _, ok := pagedtest.Families()[family]; !ok {
				refused(t, family)
				return
			}
			s := session(t)
			m := pagedtest.Model(t, family, nn.Config{Scope: s, Seed: 7})
			p, err := paged.New(m, paged.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			ids := tokens(rand.New(rand.NewPCG(1, 1)), 300, 37)
			want, err := cpu.Read(m.Forward(s.Tensor(array.FromSlice(ids, 1, len(ids)))))
			if err != nil {
				t.Fatal(err)
			}
			got := alone(p, ids)
			parallel(t, m, ids, got)
			for i, x := range array.Data[float32](want) {
				if d := math.Abs(float64(x - got[i])); d > 2e-4*(1+math.Abs(float64(x))) {
					t.Fatalf("logit %d of token %d: got %v, want %v", i%37, i/37, got[i], x)
				}
			}
		})
	}
}

// size returns the width and depth in the words of a family.
func size(family string) string {
	switch family {
	case "distilbert":
		return `"pad_token_id": 0`
	}
	return `"hidden_size": 16, "num_hidden_layers": 2`
}

// parallel compares the bits on 2 and 4 devices with those on one.
func parallel(t *testing.T, m models.Model, ids []int32, want []float32) {
	t.Helper()
	for _, tp := range []int{2, 4} {
		for _, f := range []packed.Format{"", packed.Int4} {
			p, err := paged.New(m, paged.Config{TP: tp, Threads: tp, Weights: f})
			if slices.Contains([]string{"olmo2", "olmo3", "olmoe"}, m.Config().Family) { // norms of all heads together
				if err == nil || !strings.Contains(err.Error(), "want tp 1") {
					t.Fatalf("tp %d: got %v, want a refusal", tp, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			want := want
			if f != "" {
				one, err := paged.New(m, paged.Config{Weights: f})
				if err != nil {
					t.Fatal(err)
				}
				defer one.Close()
				want = alone(one, ids)
			}
			for i, x := range alone(p, ids) {
				if math.Float32bits(x) != math.Float32bits(want[i]) {
					t.Fatalf("tp %d %s: logit %d of token %d: got %v, want %v", tp, f, i%37, i/37, x, want[i])
				}
			}
		}
	}
	if _, err := paged.New(m, paged.Config{TP: 3}); err == nil || !strings.Contains(err.Error(), "tp 3") {
		t.Errorf("tp 3: got %v, want an error about heads", err)
	}
}

func refused(t *testing.T, family string) {
	t.Helper()
	transformer := `, "intermediate_size": 20, "num_attention_heads": 4`
	more, ok := map[string]string{
		"bert": transformer + `, "vocab_size": 37`, "rwkv": `, "vocab_size": 37`,
		"roberta":    transformer + `, "vocab_size": 37`,
		"distilbert": `, "vocab_size": 37, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 20`,
		"electra":    transformer + `, "vocab_size": 37, "embedding_size": 8`,
		"mamba":      `, "vocab_size": 37`,
		"gpt_oss": transformer + `, "vocab_size": 37, "num_key_value_heads": 2, "head_dim": 8,
			"num_local_experts": 4`,
		"rwkv7":  `, "vocab_size": 37, "head_dim": 4`,
		"mamba2": `, "vocab_size": 37, "state_size": 5, "n_groups": 2, "head_dim": 8, "num_heads": 4`,
		"vit":    transformer + `, "image_size": [6, 4], "patch_size": 2, "num_labels": 3`,
	}[family]
	if !ok {
		t.Fatalf("family %s: no configuration to test it with", family)
	}
	config, err := models.ParseConfig([]byte(fmt.Sprintf(
		`{"model_type": %q, %s%s}`, family, size(family), more)))
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.New(config, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := paged.New(m, paged.Config{}); err == nil || !strings.Contains(err.Error(), family) {
		t.Fatalf("got %v, want an error that names %s", err, family)
	}
}

func tokens(r *rand.Rand, n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(r.IntN(vocab))
	}
	return ids
}

// alone returns the logits of all tokens of a sequence, computed at once.
func alone(p *paged.Model, ids []int32) []float32 {
	pages := (len(ids) + paged.PageTokens - 1) / paged.PageTokens
	table := make([]int32, pages)
	for i := range table {
		table[i] = int32(pages - 1 - i)
	}
	s := paged.NewStep(p, paged.NewCache(p, pages), len(ids))
	return s.Run([]paged.Sequence{{Pages: table, Tokens: ids, Want: len(ids)}})
}

// TestSharedSteps: however sequences are cut into chunks, whoever shares their steps and whichever logits are
// wanted, these have the bits that they have alone. Pages hold what others left there.
func TestSharedSteps(t *testing.T) {
	for _, c := range []struct {
		family  string
		weights packed.Format
		tp      int
		kv      paged.KVFormat
		length  int
	}{
		{"llama", "", 1, "", 290}, {"mistral", "", 1, paged.KVBF16, 290}, {"gpt2", "", 2, "", 290},
		{"mixtral", "", 4, "", 290}, {"gemma2", "", 1, paged.KVInt8, 290},
		{"deepseek_v3", "", 2, paged.KVInt8, 290},
		{"llama", packed.Int8, 4, paged.KVBF16, 290}, {"gpt2", packed.Int4, 1, "", 290},
		{"mixtral", packed.Int4, 1, paged.KVInt8, 290}, {"llama", "", 1, "", 2*paged.SplitKeys + 100},
		{"qwen2", "", 2, paged.KVInt8, paged.SplitKeys + 100}, {"gptj", "", 1, "", 290},
	} {
		t.Run(fmt.Sprintf("%s%s%d%s%d", c.family, c.weights, c.tp, c.kv, c.length), func(t *testing.T) {
			p, err := paged.New(pagedtest.Model(t, c.family, nn.Config{Scope: session(t), Seed: 7}),
				paged.Config{Threads: 2, Weights: c.weights, TP: c.tp, KV: c.kv})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			r := rand.New(rand.NewPCG(3, 9))
			const count = 5
			length, perSeq := c.length, c.length/paged.PageTokens+1
			var all [][]int32
			var want [][]float32
			for range count {
				all = append(all, tokens(r, length, 37))
				want = append(want, append([]float32(nil), alone(p, all[len(all)-1])...))
			}
			cache := paged.NewCache(p, count*perSeq)
			paged.Poison(cache)
			step := paged.NewStep(p, cache, 64)
			order, done := r.Perm(count*perSeq), make([]int, count)
			for {
				var seqs []paged.Sequence
				var who []int
				room := 64
				for i := range count {
					n := min(1+r.IntN(1+r.IntN(c.length/7)), length-done[i], room)
					if n <= 0 || r.IntN(3) == 0 || done[i] > paged.SplitKeys && r.IntN(3) > 0 {
						continue
					}
					room -= n
					table := make([]int32, perSeq)
					for j := range table {
						table[j] = int32(order[i*perSeq+j])
					}
					who = append(who, i)
					seqs = append(
						seqs,
						paged.Sequence{Pages: table, Start: done[i], Tokens: all[i][done[i] : done[i]+n], Want: r.IntN(n + 1)},
					)
				}
				got := step.Run(seqs)
				for j, q := range seqs {
					i := who[j]
					done[i] += len(q.Tokens)
					first := done[i] - q.Want
					for k := range q.Want * 37 {
						if w := want[i][first*37+k]; math.Float32bits(got[k]) != math.Float32bits(w) {
							t.Fatalf("sequence %d, token %d, logit %d: got %v, want %v", i, first+k/37, k%37, got[k], w)
						}
					}
					got = got[q.Want*37:]
				}
				if done[0]+done[1]+done[2]+done[3]+done[4] == count*length {
					return
				}
			}
		})
	}
}
