package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/galley-ml/galley/serve/engine"
)

// metrics holds the server's metrics for /metrics in Prometheus' text format. The names are vLLM's with our
// own prefix.
type metrics struct {
	mu     sync.Mutex
	models map[string]*modelMetrics
}

func newMetrics() *metrics { return &metrics{models: map[string]*modelMetrics{}} }

// modelMetrics has the metrics of one model name: they continue when the model is replaced.
type modelMetrics struct {
	firstToken, gap, whole, queued *histogram
	tokens                         *histogram
	mu                             sync.Mutex
	success                        map[string]int64
	before                         engine.Stats // of the replaced models
	model                          *Model
}

// of returns the metrics of a model, which continue those of its predecessor.
func (s *metrics) of(m *Model) *modelMetrics {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.models[m.Name]
	if x == nil {
		seconds := []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
			30, 60}
		x = &modelMetrics{firstToken: newHistogram(seconds), gap: newHistogram(seconds),
			whole:  newHistogram(seconds),
			queued: newHistogram(seconds), success: map[string]int64{},
			tokens: newHistogram([]float64{1, 8, 16, 32, 64, 128, 256, 512, 1024})}
		s.models[m.Name] = x
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.model != nil {
		x.before = added(x.before, x.model.Engine.Stats())
	}
	x.model = m
	return x
}

func added(a, b engine.Stats) engine.Stats {
	a.PrefixQueries += b.PrefixQueries
	a.PrefixHits += b.PrefixHits
	a.Preemptions += b.Preemptions
	a.PromptTokens += b.PromptTokens
	a.GeneratedTokens += b.GeneratedTokens
	a.Guessed += b.Guessed
	a.GuessedRight += b.GuessedRight
	return a
}

// finished counts an answer by its finish reason.
func (m *modelMetrics) finished(reason string) {
	m.mu.Lock()
	m.success[reason]++
	m.mu.Unlock()
}

func (m *modelMetrics) failed(err error) {
	if errors.Is(err, context.Canceled) {
		m.finished("abort")
		return
	}
	m.finished("error")
}

// Observe records the tokens of a step; pass it as engine.Config.Observe.
func (m *Model) Observe(s engine.StepStats) {
	if m.metrics != nil {
		m.metrics.tokens.observe(float64(s.Tokens))
	}
}

// histogram counts observations in buckets with upper bounds.
type histogram struct {
	mu     sync.Mutex
	bounds []float64
	counts []int64
	count  int64
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]int64, len(bounds))}
}

func (h *histogram) observe(x float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i, _ := slices.BinarySearch(h.bounds, x); i < len(h.counts) {
		h.counts[i]++
	}
	h.count++
	h.sum += x
}

// exposition handles GET /metrics.
func (s *Server) exposition(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(s.metrics.text())
}

// family is one metric with its values for all models.
type family struct {
	name, kind, help string
	write            func(b *bytes.Buffer, name, label string, m *modelMetrics, now engine.Stats)
}

func value(of func(s engine.Stats) float64) func(*bytes.Buffer, string, string, *modelMetrics, engine.Stats) {
	return func(b *bytes.Buffer, name, label string, _ *modelMetrics, now engine.Stats) {
		fmt.Fprintf(b, "%s{%s} %s\n", name, label, number(of(now)))
	}
}

func seconds(of func(m *modelMetrics) *histogram) func(*bytes.Buffer, string, string, *modelMetrics,
	engine.Stats) {
	return func(b *bytes.Buffer, name, label string, m *modelMetrics, _ engine.Stats) {
		of(m).write(b, name, label)
	}
}

var families = []family{
	{"galley_num_requests_running", "gauge", "Sequences that are being computed.",
		value(func(s engine.Stats) float64 { return float64(s.Running) })},
	{"galley_num_requests_waiting", "gauge", "Sequences that wait to be computed.",
		value(func(s engine.Stats) float64 { return float64(s.Waiting) })},
	{"galley_kv_cache_usage_perc", "gauge", "Share of the pages of keys and values that are in use; 1 is all.",
		value(func(s engine.Stats) float64 { return float64(s.UsedPages) / float64(max(1, s.Pages)) })},
	{"galley_prefix_cache_queries_total", "counter", "Tokens of prompts that were looked for in pages.",
		value(func(s engine.Stats) float64 { return float64(s.PrefixQueries) })},
	{"galley_prefix_cache_hits_total", "counter", "Tokens of prompts that were found in pages.",
		value(func(s engine.Stats) float64 { return float64(s.PrefixHits) })},
	{"galley_num_preemptions_total", "counter", "Sequences that gave their pages back to others.",
		value(func(s engine.Stats) float64 { return float64(s.Preemptions) })},
	{"galley_prompt_tokens_total", "counter", "Tokens of prompts that were taken.",
		value(func(s engine.Stats) float64 { return float64(s.PromptTokens) })},
	{"galley_generation_tokens_total", "counter", "Tokens that were generated.",
		value(func(s engine.Stats) float64 { return float64(s.GeneratedTokens) })},
	{"galley_spec_decode_num_draft_tokens_total", "counter", "Tokens that were guessed.",
		value(func(s engine.Stats) float64 { return float64(s.Guessed) })},
	{"galley_spec_decode_num_accepted_tokens_total", "counter", "Guessed tokens that came to be.",
		value(func(s engine.Stats) float64 { return float64(s.GuessedRight) })},
	{"galley_request_success_total", "counter", "Answers by why they ended.", writeSuccess},
	{"galley_time_to_first_token_seconds", "histogram", "From a request to its first token.",
		seconds(func(m *modelMetrics) *histogram { return m.firstToken })},
	{"galley_inter_token_latency_seconds", "histogram", "From a token to the next.",
		seconds(func(m *modelMetrics) *histogram { return m.gap })},
	{"galley_e2e_request_latency_seconds", "histogram", "From a request to its last token.",
		seconds(func(m *modelMetrics) *histogram { return m.whole })},
	{"galley_request_queue_time_seconds", "histogram", "From a request to its first step.",
		seconds(func(m *modelMetrics) *histogram { return m.queued })},
	{"galley_iteration_tokens", "histogram", "Tokens of a step.",
		seconds(func(m *modelMetrics) *histogram { return m.tokens })},
}

func (s *metrics) text() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	names := slices.Sorted(maps.Keys(s.models))
	now := map[string]engine.Stats{}
	for _, n := range names {
		m := s.models[n]
		m.mu.Lock()
		now[n] = added(m.model.Engine.Stats(), m.before)
		m.mu.Unlock()
	}
	for _, f := range families {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for _, n := range names {
			f.write(&b, f.name, `model_name="`+escaped(n)+`"`, s.models[n], now[n])
		}
	}
	return b.Bytes()
}

func writeSuccess(b *bytes.Buffer, name, label string, m *modelMetrics, _ engine.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(m.success)) {
		fmt.Fprintf(b, "%s{finished_reason=%q,%s} %d\n", name, reason, label, m.success[reason])
	}
}

func (h *histogram) write(b *bytes.Buffer, name, label string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := int64(0)
	for i, bound := range h.bounds {
		sum += h.counts[i]
		fmt.Fprintf(b, "%s_bucket{%s,le=%q} %d\n", name, label, number(bound), sum)
	}
	fmt.Fprintf(b, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %s\n%s_count{%s} %d\n", name, label, h.count, name,
		label,
		number(h.sum), name, label, h.count)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// escaped returns a label's value escaped for the text format.
func escaped(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}
