package engine_test

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/serve/engine"
)

// forgetful reads a model without what attention gives, so that a token decides the next one: its texts
// repeat themselves after at most as many tokens as there are.
func forgetful(p *nn.Param) (array.Array, error) {
	a, err := cpu.Read(p.Value)
	if err == nil && strings.HasSuffix(p.Name, "o_proj.weight") {
		clear(array.Data[float32](a))
	}
	return a, err
}

// compare generates a request twice and wants the same bits; it returns what both engines did.
func compare(t *testing.T, r engine.Request, plain, guessing *engine.Engine) (a, b engine.Stats) {
	t.Helper()
	want, err := collect(plain, r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := collect(guessing, r)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("got %d tokens, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].ID != want[i].ID || math.Float64bits(got[i].LogProb) != math.Float64bits(want[i].LogProb) {
			t.Fatalf("token %d: got %+v, want %+v", i, got[i], want[i])
		}
	}
	return plain.Stats(), guessing.Stats()
}

// TestSpeculation: a text that repeats itself takes less than half as many steps, and is the same.
func TestSpeculation(t *testing.T) {
	m := model(t, "llama")
	plain := newEngine(t, m, engine.Config{Read: forgetful})
	guessing := newEngine(t, m, engine.Config{Read: forgetful, Speculate: 4})
	a, b := compare(t, engine.Request{Prompt: []int32{5, 6, 7, 5, 6, 7}, Tokens: 300}, plain, guessing)
	t.Logf("%d steps in place of %d, %d of %d guesses right", b.Steps, a.Steps, b.GuessedRight, b.Guessed)
	if 2*b.Steps >= a.Steps {
		t.Errorf("%d steps, %d guesses right: want less than half of %d", b.Steps, b.GuessedRight, a.Steps)
	}
}

// TestDraft: guesses of a draft model change no token, greedy or drawn; those of the model itself are all
// right. One with another vocabulary is refused.
func TestDraft(t *testing.T) {
	m := model(t, "llama")
	for name, read := range map[string]func(*nn.Param) (array.Array, error){"itself": nil,
		"another": forgetful} {
		plain := newEngine(t, m, engine.Config{})
		guessing := newEngine(t, m, engine.Config{Draft: &engine.Draft{Model: m, Read: read}})
		for _, c := range []engine.Sampling{{}, {Temperature: 1, Seed: 3}} {
			_, b := compare(t, engine.Request{Prompt: make([]int32, 40), Tokens: 80, Sampling: c}, plain, guessing)
			t.Logf("%s: %d steps, %d of %d guesses right", name, b.Steps, b.GuessedRight, b.Guessed)
			if b.Guessed == 0 {
				t.Errorf("%s: no guesses", name)
			}
			if name == "itself" && c.Temperature == 0 && b.GuessedRight != b.Guessed {
				t.Errorf("%d of %d guesses of the model itself were right", b.GuessedRight, b.Guessed)
			}
		}
	}
	config := m.Config()
	config.Vocab++
	other, err := models.New(config, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	zeros := func(p *nn.Param) (array.Array, error) { return array.New(p.Type.DType, p.Type.Shape...), nil }
	_, err = engine.New(m, engine.Config{Draft: &engine.Draft{Model: other, Read: zeros}})
	if err == nil || !strings.Contains(err.Error(), "vocabulary") {
		t.Errorf("another vocabulary: got %v", err)
	}
}

// TestPreemption: continuations that need more pages than there are take turns, and get what they would get
// with enough of them.
func TestPreemption(t *testing.T) {
	m := model(t, "llama")
	r := engine.Request{Prompt: make([]int32, 20), Tokens: 90, N: 6, Sampling: engine.Sampling{Temperature: 1.2}}
	enough, few := newEngine(t, m, engine.Config{Pages: 100}), newEngine(t, m, engine.Config{Pages: 14})
	var texts [2][6]string
	for i, e := range []*engine.Engine{enough, few} {
		got, err := collect(e, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range got {
			texts[i][x.Index] += string(rune('0' + x.ID))
		}
	}
	if texts[0] != texts[1] {
		t.Errorf("got %q, want %q", texts[1], texts[0])
	}
	if n := few.Stats().Preemptions; n == 0 {
		t.Error("no preemption: want some")
	}
}
