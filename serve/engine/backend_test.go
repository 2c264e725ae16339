package engine_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/interpreter"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/serve/engine"
)

// TestBackend: on a backend, under random budgets, pages and arrivals, with guesses and without, requests get
// the tokens that they get on the host, whether the backend chooses them or the host, and every page is free
// in the end.
func TestBackend(t *testing.T) {
	m := model(t, "llama")
	r := rand.New(rand.NewPCG(8, 8))
	all := jobs(t, m, r, 12, nil, "")
	for i := range all { // draws that the backend makes itself
		if i%3 == 0 {
			all[i].Sampling = engine.Sampling{Temperature: 0.8, TopK: 10, Seed: uint64(i)}
			all[i].ids, all[i].logProbs = nil, nil
		}
	}
	host := newEngine(t, m, engine.Config{})
	for i := range all {
		if all[i].ids != nil {
			continue
		}
		tokens, err := collect(host, all[i].Request)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tokens {
			all[i].ids, all[i].logProbs = append(all[i].ids, x.ID), append(all[i].logProbs, x.LogProb)
		}
	}
	var preempted, hits int64
	for range 3 {
		stats := onBackend(t, m, r, all)
		preempted += stats.Preemptions
		hits += stats.PrefixHits
	}
	if preempted == 0 || hits == 0 {
		t.Errorf("%d preemptions, %d tokens found in pages: want some of both", preempted, hits)
	}
}

func onBackend(t *testing.T, m models.Model, r *rand.Rand, all []job) engine.Stats {
	t.Helper()
	e := newEngine(t, m, engine.Config{Backend: interpreter.New(1), Pages: 12, Running: 4,
		Budget: 16 + r.IntN(64), Speculate: []int{0, 3}[r.IntN(2)]})
	var wg sync.WaitGroup
	for range 6 {
		j := all[r.IntN(len(all))]
		wg.Go(func() {
			got, err := collect(e, j.Request)
			if err != nil || len(got) != j.Tokens {
				t.Errorf("got %d tokens, want %d: %v", len(got), j.Tokens, err)
				return
			}
			for i, x := range got {
				if x.ID != j.ids[i] || math.Abs(x.LogProb-j.logProbs[i]) > 1e-2 {
					t.Errorf("token %d: got %d with %v, want %d with %v", i, x.ID, x.LogProb, j.ids[i],
						j.logProbs[i])
					return
				}
			}
		})
	}
	wg.Wait()
	for e.Stats().Running > 0 {
		time.Sleep(time.Millisecond)
	}
	s := e.Stats()
	if s.UsedPages != 0 || s.Waiting != 0 {
		t.Fatalf("in the end: %+v", s)
	}
	return s
}

// TestBackendRequests: stop texts, log-probabilities, biases, several continuations and embeddings are on a
// backend what they are on the host.
func TestBackendRequests(t *testing.T) {
	m := model(t, "qwen2")
	host := newEngine(t, m, engine.Config{Decode: letters})
	device := newEngine(t, m, engine.Config{Decode: letters, Backend: interpreter.New(1), Pages: 40, Running: 4})
	whole, err := collect(host, engine.Request{Prompt: []int32{1, 2, 3}, Tokens: 20})
	if err != nil {
		t.Fatal(err)
	}
	stop := whole[11].Text + whole[12].Text
	for name, q := range map[string]engine.Request{
		"stop text":        {StopText: []string{stop}},
		"stop token":       {Stop: []int32{whole[5].ID}},
		"log-probabilites": {Sampling: engine.Sampling{Top: 3}},
		"bias":             {Sampling: engine.Sampling{Bias: map[int32]float64{whole[2].ID: -100}}},
		"several":          {N: 2, Sampling: engine.Sampling{Temperature: 1.5, Seed: 4}},
	} {
		q.Prompt, q.Tokens = []int32{1, 2, 3}, 20
		want, err := collect(host, q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(device, q)
		if err != nil {
			t.Fatal(err)
		}
		for index := range max(1, q.N) {
			if a, b := shown(got, index), shown(want, index); a != b {
				t.Errorf("%s: got %q, want %q", name, a, b)
			}
		}
	}
	want, err := host.Embed(context.Background(), engine.Request{Prompt: []int32{4, 5, 6}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := device.Embed(context.Background(), engine.Request{Prompt: []int32{4, 5, 6}})
	near := func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-3 }
	if err != nil || !slices.EqualFunc(got, want, near) {
		t.Errorf("embedding: got %v, %v, want %v", got, err, want)
	}
}

// shown returns a continuation's text, how it ended, and the likeliest tokens on the way.
func shown(list []engine.Token, index int) string {
	var b strings.Builder
	for _, x := range list {
		if x.Index != index {
			continue
		}
		b.WriteString(x.Text)
		for _, c := range x.Top {
			b.WriteString(letters([]int32{c.ID}))
		}
		b.WriteString(string(x.Finish))
	}
	return b.String()
}

// broken is a backend whose programs fail after some runs.
type broken struct {
	backend.Backend
	left atomic.Int64
}

type brokenProgram struct {
	backend.Executable
	b *broken
}

var errBroken = errors.New("the device fell off the bus")

func (b *broken) Compile(f *backend.Program, o backend.Options) (backend.Executable, error) {
	e, err := b.Backend.Compile(f, o)
	return brokenProgram{e, b}, err
}

func (p brokenProgram) Run(args []backend.Buffer) ([]backend.Buffer, error) {
	if p.b.left.Add(-1) < 0 {
		return nil, errBroken
	}
	return p.Executable.Run(args)
}

// TestBackendFails: requests end with what a backend says, and later ones are told at once.
func TestBackendFails(t *testing.T) {
	b := &broken{Backend: interpreter.New(1)}
	b.left.Store(2)
	e := newEngine(t, model(t, "llama"), engine.Config{Backend: b, Pages: 10, Running: 2})
	got, err := collect(e, engine.Request{Prompt: []int32{1, 2, 3}, Tokens: 50})
	if !errors.Is(err, errBroken) || len(got) == 0 {
		t.Errorf("got %d tokens and %v", len(got), err)
	}
	if _, err := collect(e, engine.Request{Prompt: []int32{1}, Tokens: 1}); !errors.Is(err, errBroken) {
		t.Errorf("afterwards: got %v", err)
	}
	if s := e.Stats(); s.UsedPages != 0 || s.Running != 0 {
		t.Errorf("in the end: %+v", s)
	}
}

// TestBackendRefuses: what a backend does not do is refused by name.
func TestBackendRefuses(t *testing.T) {
	m := model(t, "llama")
	for want, c := range map[string]engine.Config{
		"tp 2": {TP: 2}, "draft": {Draft: &engine.Draft{Model: m}}, "int8": {KV: "int8"},
	} {
		c.Backend = interpreter.New(1)
		if _, err := engine.New(m, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	e := newEngine(t, m, engine.Config{Backend: interpreter.New(1), Pages: 4})
	if err := e.LoadAdapter("a", adapter(t, 1)); err == nil || !strings.Contains(err.Error(), "backend") {
		t.Errorf("adapter: got %v", err)
	}
}
