package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/sample"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/serve/engine"
)

const vocab = 64

// model returns a small one with weights so large that its choices differ from token to token.
func model(t testing.TB, family string) models.Model {
	t.Helper()
	config, err := models.ParseConfig([]byte(fmt.Sprintf(`{"model_type": %q, "vocab_size": %d, "hidden_size": 16,
		"intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
		"initializer_range": 0.4}`, family, vocab)))
	if err != nil {
		t.Fatal(err)
	}
	d := cpu.NewDevice(cpu.Config{})
	t.Cleanup(d.Close)
	m, err := models.New(config, nn.Config{Scope: d.NewSession(), Seed: 11})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newEngine(t testing.TB, m models.Model, c engine.Config) *engine.Engine {
	t.Helper()
	if c.Threads == 0 {
		c.Threads = 1
	}
	e, err := engine.New(m, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// letters returns a text of one character for each token.
func letters(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteByte(byte('0' + id))
	}
	return b.String()
}

func collect(e *engine.Engine, r engine.Request) ([]engine.Token, error) {
	var all []engine.Token
	for t, err := range e.Generate(context.Background(), r) {
		if err != nil {
			return all, err
		}
		all = append(all, t)
	}
	return all, nil
}

// alone generates a request's tokens without an engine: one sequence, one token at a time after the prompt.
func alone(m *paged.Model, r engine.Request, a *paged.Adapter) (ids []int32, logProbs []float64) {
	n := (len(r.Prompt)+r.Tokens)/paged.PageTokens + 1
	table := make([]int32, n)
	for i := range table {
		table[i] = int32(i)
	}
	step := paged.NewStep(m, paged.NewCache(m, n), len(r.Prompt))
	s := sample.New(r.Sampling, r.Prompt, 0)
	next, start := r.Prompt, 0
	for range r.Tokens {
		c, err := s.Choose(
			step.Run([]paged.Sequence{{Pages: table, Start: start, Tokens: next, Want: 1, Adapter: a}}),
			nil,
		)
		if err != nil {
			panic(err)
		}
		start += len(next)
		next = []int32{c.ID}
		ids, logProbs = append(ids, c.ID), append(logProbs, c.LogProb)
	}
	return ids, logProbs
}

// job is a request and what it gets alone.
type job struct {
	engine.Request
	ids      []int32
	logProbs []float64
}

func jobs(t *testing.T, m models.Model, r *rand.Rand, count int, dirs map[string]string, kv string) []job {
	p, err := paged.New(m, paged.Config{Threads: 1, KV: paged.KVFormat(kv)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	adapters := map[string]*paged.Adapter{}
	for name, dir := range dirs {
		layers, err := models.ReadAdapter(dir, m)
		if err == nil {
			adapters[name], err = p.Adapter(layers)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	shared := make([]int32, 100)
	for i := range shared {
		shared[i] = int32(r.IntN(vocab))
	}
	var all []job
	for range count {
		prompt := slices.Clone(shared[:r.IntN(len(shared))])
		for range 1 + r.IntN(40) {
			prompt = append(prompt, int32(r.IntN(vocab)))
		}
		j := job{Request: engine.Request{Prompt: prompt, Tokens: 1 + r.IntN(30), Priority: r.IntN(2),
			Tenant: string(rune('a' + r.IntN(3)))}}
		if r.IntN(2) == 0 {
			j.Sampling = engine.Sampling{Temperature: 0.9, TopK: 20, TopP: 0.95, Repetition: 1.1, Seed: r.Uint64()}
		}
		if len(dirs) > 0 {
			j.Adapter = []string{"", "a", "b"}[r.IntN(3)]
		}
		j.ids, j.logProbs = alone(p, j.Request, adapters[j.Adapter])
		all = append(all, j)
	}
	return all
}

// TestSchedules: under random budgets, pages, arrivals and cancels, on 1, 2 and 4 devices, with adapters and
// without, with keys and values in every format, with guesses of the sequence's own and of draft models,
// every request gets, to the bit, what it gets alone on one device, and every page is free in the end.
func TestSchedules(t *testing.T) {
	m := model(t, "llama")
	r := rand.New(rand.NewPCG(5, 5))
	dirs := map[string]string{"a": adapter(t, 1), "b": adapter(t, 2)}
	all := map[string][]job{}
	formats := []string{"", "bf16", "int8"}
	for _, kv := range formats {
		all[kv] = jobs(t, m, r, 60, dirs, kv)
	}
	schedules := 1000
	if testing.Short() {
		schedules = 40
	}
	drafts := []models.Model{m, model(t, "qwen2")} // one that is always right, and one that hardly ever is
	var preempted, hits, right int64
	for range schedules {
		kv := formats[r.IntN(len(formats))]
		stats := schedule(t, m, r, all[kv], dirs, kv, drafts)
		preempted += stats.Preemptions
		hits += stats.PrefixHits
		right += stats.GuessedRight
	}
	if !testing.Short() && (preempted == 0 || hits == 0 || right == 0) {
		t.Errorf("%d preemptions, %d tokens found in pages, %d guessed: want some of all", preempted, hits, right)
	}
}

func schedule(t *testing.T, m models.Model, r *rand.Rand, all []job, dirs map[string]string,
	kv string, drafts []models.Model) engine.Stats {
	t.Helper()
	var draft *engine.Draft
	if r.IntN(3) == 0 {
		draft = &engine.Draft{Model: drafts[r.IntN(len(drafts))]}
	}
	e, err := engine.New(m, engine.Config{Threads: 1 + r.IntN(2), Pages: 12 + r.IntN(30), Running: 1 + r.IntN(8),
		Draft: draft, Budget: 1 + r.IntN(64), Speculate: r.IntN(5), TP: []int{1, 1, 2, 4}[r.IntN(4)], KV: kv})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	load(t, e, dirs)
	var wg sync.WaitGroup
	wg.Go(func() { load(t, e, dirs) }) // once more: what runs goes on with what it has
	for range 2 + r.IntN(8) {
		j, leave := all[r.IntN(len(all))], -1
		if r.IntN(4) == 0 {
			leave = r.IntN(10)
		}
		wg.Go(func() { follow(t, e, j, leave) })
	}
	wg.Wait()
	for e.Stats().Running > 0 { // what was cancelled leaves before the next step
		time.Sleep(time.Millisecond)
	}
	s := e.Stats()
	if s.UsedPages != 0 || s.Waiting != 0 {
		t.Fatalf("in the end: %+v", s)
	}
	return s
}

// load loads the adapters, and one more that it unloads again.
func load(t *testing.T, e *engine.Engine, dirs map[string]string) {
	for name, dir := range dirs {
		if err := e.LoadAdapter(name, dir); err != nil {
			t.Error(err)
		}
	}
	err := e.LoadAdapter("gone", dirs["a"])
	if err == nil {
		err = e.UnloadAdapter("gone")
	}
	if err != nil {
		t.Error(err)
	}
}

// follow compares what a request gets; it leaves after some tokens where leave is not negative.
func follow(t *testing.T, e *engine.Engine, j job, leave int) {
	i := 0
	for token, err := range e.Generate(context.Background(), j.Request) {
		if err != nil {
			t.Errorf("token %d: %v", i, err)
			return
		}
		if token.ID != j.ids[i] || math.Float64bits(token.LogProb) != math.Float64bits(j.logProbs[i]) {
			t.Errorf("token %d: got %d with %v, want %d with %v", i, token.ID, token.LogProb, j.ids[i], j.logProbs[i])
			return
		}
		if i++; i == leave {
			return
		}
	}
	if i != j.Tokens {
		t.Errorf("got %d tokens, want %d", i, j.Tokens)
	}
}

// TestStops: a continuation ends at a token, before a text that is across tokens, after it where it is kept,
// and at the limit.
func TestStops(t *testing.T) {
	e := newEngine(t, model(t, "qwen2"), engine.Config{Decode: letters, Pages: 8})
	prompt := []int32{1, 2, 3}
	whole, err := collect(e, engine.Request{Prompt: prompt, Tokens: 40})
	if err != nil {
		t.Fatal(err)
	}
	text, ids := "", []int32(nil)
	for _, x := range whole {
		text, ids = text+x.Text, append(ids, x.ID)
	}
	if len(whole) != 40 || whole[39].Finish != engine.FinishLength || text != letters(ids) {
		t.Fatalf("got %d tokens, %q, want 40 and %q", len(whole), text, letters(ids))
	}
	stop := text[10:14]
	at := strings.Index(text, stop)
	for _, c := range []struct {
		name string
		engine.Request
		want string
	}{
		{"text", engine.Request{StopText: []string{"~~", stop}}, text[:at]},
		{"kept text", engine.Request{StopText: []string{stop}, KeepStop: true}, text[:at+4]},
		{"token", engine.Request{Stop: []int32{ids[7]}}, text[:slices.Index(ids, ids[7])]},
		{"never", engine.Request{StopText: []string{text[37:] + "~"}}, text},
	} {
		c.Prompt, c.Tokens = prompt, 40
		got, err := collect(e, c.Request)
		if err != nil {
			t.Fatal(err)
		}
		shown := ""
		for _, x := range got {
			shown += x.Text
		}
		if shown != c.want || got[len(got)-1].Finish == "" {
			t.Errorf("%s: got %q, %q, want %q", c.name, shown, got[len(got)-1].Finish, c.want)
		}
	}
	long, err := collect(e, engine.Request{Prompt: prompt, Tokens: 1000})
	if err != nil || len(long)+len(prompt) != 8*paged.PageTokens ||
		long[len(long)-1].Finish != engine.FinishLength {
		t.Errorf("beyond the pages: %d tokens, %v", len(long), err)
	}
}

// TestSeveral: continuations of one prompt draw by themselves, and read the prompt once.
func TestSeveral(t *testing.T) {
	e := newEngine(t, model(t, "llama"), engine.Config{})
	prompt := make([]int32, 50)
	got, err := collect(
		e,
		engine.Request{Prompt: prompt, Tokens: 6, N: 3, Sampling: engine.Sampling{Temperature: 1.5}},
	)
	if err != nil {
		t.Fatal(err)
	}
	var texts [3]string
	for _, x := range got {
		texts[x.Index] += string(rune('0' + x.ID))
		if x.Index > 0 && x.Cached != 48 {
			t.Errorf("continuation %d: %d tokens were cached, want 48", x.Index, x.Cached)
		}
	}
	if len(got) != 18 || texts[0] == texts[1] || texts[1] == texts[2] {
		t.Errorf("got %q", texts)
	}
}

// TestErrors: what cannot be computed is refused, with the field at fault.
func TestErrors(t *testing.T) {
	e := newEngine(t, model(t, "llama"), engine.Config{Pages: 4, Waiting: 1, Running: 1})
	for param, r := range map[string]engine.Request{
		"prompt":     {Prompt: make([]int32, 64), Tokens: 1},
		"max_tokens": {Prompt: []int32{1}},
		"n":          {Prompt: []int32{1}, Tokens: 1, N: 100},
		"top_p":      {Prompt: []int32{1}, Tokens: 1, Sampling: engine.Sampling{TopP: 3}},
	} {
		_, err := collect(e, r)
		if got, ok := engine.IsBadRequest(err); !ok || got != param {
			t.Errorf("%s: got %v", param, err)
		}
	}
	if _, err := collect(e, engine.Request{Prompt: []int32{vocab}, Tokens: 1}); err == nil {
		t.Error("a token outside the vocabulary: got no error")
	}
	_, err := collect(e, engine.Request{Prompt: []int32{1}, Tokens: 1, Deadline: time.Now().Add(-time.Second)})
	if !errors.Is(err, engine.ErrDeadline) {
		t.Errorf("a deadline that has passed: got %v", err)
	}
	if _, err := engine.New(model(t, "llama"), engine.Config{Pages: 4, Context: 100}); err == nil ||
		!strings.Contains(err.Error(), "at most 64") {
		t.Errorf("a context that does not fit: got %v", err)
	}
}

// TestCancel: requests whose caller left are never computed, and running ones give their pages back.
func TestCancel(t *testing.T) {
	e := newEngine(t, model(t, "llama"), engine.Config{Pages: 8192, Running: 1})
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan error)
	go func() {
		once := sync.OnceFunc(func() { close(started) })
		var last error
		for _, err := range e.Generate(ctx, engine.Request{Prompt: []int32{1}, Tokens: 100000}) {
			once()
			last = err
		}
		ended <- last
	}()
	<-started
	waiting := make(chan error)
	go func() {
		var last error
		for _, err := range e.Generate(ctx, engine.Request{Prompt: []int32{2}, Tokens: 5}) {
			last = err
		}
		waiting <- last
	}()
	for e.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("running: got %v", err)
	}
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("waiting: got %v", err)
	}
	if err := e.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s := e.Stats(); s.UsedPages != 0 || s.Running+s.Waiting != 0 {
		t.Errorf("in the end: %+v", s)
	}
	if _, err := collect(e, engine.Request{Prompt: []int32{1}, Tokens: 1}); !errors.Is(err, engine.ErrDraining) {
		t.Errorf("after draining: got %v", err)
	}
}

// TestPrefix: a prompt that was seen before is not computed again, unless its salt is another.
func TestPrefix(t *testing.T) {
	e := newEngine(t, model(t, "llama"), engine.Config{Pages: 100})
	prompt := make([]int32, 333)
	for i, want := range []int{0, 320, 320, 0} {
		r := engine.Request{Prompt: prompt, Tokens: 2}
		if i == 3 {
			r.Salt = "other"
		}
		got, err := collect(e, r)
		if err != nil || got[0].Cached != want {
			t.Errorf("time %d: %+v, %v: want %d cached tokens", i, got, err, want)
		}
	}
}

// TestEmbed: an embedding does not depend on who else is computed.
func TestEmbed(t *testing.T) {
	e := newEngine(t, model(t, "llama"), engine.Config{Budget: 7})
	want, err := e.Embed(context.Background(), engine.Request{Prompt: []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}})
	if err != nil || len(want) != 16 {
		t.Fatal(want, err)
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := collect(e, engine.Request{Prompt: []int32{1, 2}, Tokens: 30}); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			got, err := e.Embed(context.Background(), engine.Request{Prompt: []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
	wg.Wait()
}
