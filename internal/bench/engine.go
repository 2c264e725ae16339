package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/serve/engine"
)

// EngineConfig describes how an engine is timed: DecodeConfig's Sequences are decoded at once.
type EngineConfig struct {
	DecodeConfig
	// Long is the tokens of a prompt that arrives while sequences are decoded, and of one that is sent
	// twice.
	Long int
}

// EngineResult is how an engine shares its steps. Times are in milliseconds; those called CPU are processor
// time, which other load affects less.
type EngineResult struct {
	Weights   string `json:"weights"`
	Threads   int    `json:"threads"`
	Sequences int    `json:"sequences"`
	Long      int    `json:"long"`
	// First is the time to the first token of a long prompt, Again of the same prompt repeated.
	First    float64 `json:"first_ms"`
	Again    float64 `json:"again_ms"`
	FirstCPU float64 `json:"first_cpu_ms"`
	AgainCPU float64 `json:"again_cpu_ms"`
	// Alone are the steps of the sequences before and after a long prompt, During those during its prefill.
	Alone  Gaps `json:"alone"`
	During Gaps `json:"during"`
	// Engine is tokens per second from Go, Server over HTTP; ServerCPU is the engine's own share of the
	// processor time of a token over HTTP, clients included.
	Engine    float64 `json:"engine_tokens_per_s"`
	Server    float64 `json:"server_tokens_per_s"`
	ServerCPU float64 `json:"engine_share_of_server_cpu"`
}

// Gaps is the times of steps, which are the inter-token latencies of a sequence, in milliseconds.
type Gaps struct {
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	P50CPU float64 `json:"p50_cpu_ms"`
	P99CPU float64 `json:"p99_cpu_ms"`
}

func gapsOf(list []engineStep) Gaps {
	wall := func(s engineStep) float64 { return s.took }
	work := func(s engineStep) float64 { return s.cpuTook }
	return Gaps{quantile(list, 0.5, wall), quantile(list, 0.99, wall), quantile(list, 0.5, work),
		quantile(list, 0.99, work)}
}

func (g Gaps) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f (of the processor %.1f, %.1f)", g.P50, g.P99, g.P50CPU, g.P99CPU)
}

func (r EngineResult) String() string {
	return fmt.Sprintf("%-5s %d thread(s): first token of %d: %.0f ms, again %.1f: 1/%.0f, by processor time "+
		"1/%.0f\n"+
		"      %d sequence(s): gap %v; while %d tokens are read %v: p99 %.1fx p50, by processor time %.1fx\n"+
		"      engine %.0f tokens/s, over HTTP %.0f: %.2f, by processor time %.2f", r.Weights, r.Threads, r.Long,
		r.First, r.Again, r.First/r.Again, r.FirstCPU/r.AgainCPU, r.Sequences, r.Alone, r.Long, r.During,
		r.During.P99/r.Alone.P50, r.During.P99CPU/r.Alone.P50CPU, r.Engine, r.Server, r.Server/r.Engine,
		r.ServerCPU)
}

// engineBench is an engine with random weights, and its steps.
type engineBench struct {
	EngineConfig
	e       *engine.Engine
	counter int32 // makes prompts that are all different

	mu    sync.Mutex
	steps []engineStep
	last  float64 // processor time at the end of the last step
}

type engineStep struct {
	tokens        int
	took, cpuTook float64
}

// Engine times an engine: repeated prompts, steps with a long prompt, and the overhead of HTTP.
func Engine(c EngineConfig) (EngineResult, error) {
	out := EngineResult{Weights: c.Weights, Threads: c.Threads, Sequences: c.Sequences, Long: c.Long}
	m, err := models.New(c.Model, nn.Config{})
	if err != nil {
		return out, err
	}
	if c.Read == nil {
		c.Read = noise
	}
	b := &engineBench{EngineConfig: c}
	b.e, err = engine.New(m, engine.Config{Weights: c.Weights, Read: c.Read, Grouped: c.Grouped,
		Threads: c.Threads,
		Context: 2*c.Long + c.Prompt + 8*c.Runs + 64, Running: c.Sequences + 1, Observe: b.observe,
		Decode: numbers{}.Decode})
	if err != nil {
		return out, err
	}
	defer b.e.Close()
	if err := b.prefixes(&out); err != nil {
		return out, err
	}
	if err := b.gaps(&out); err != nil {
		return out, err
	}
	return out, b.server(&out)
}

func (b *engineBench) observe(s engine.StepStats) {
	now := CPUSeconds()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps = append(b.steps, engineStep{s.Tokens, milliseconds(s.Took), (now - b.last) * 1e3})
	b.last = now
}

// taken returns the steps since the last call.
func (b *engineBench) taken() []engineStep {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.steps
	b.steps = nil
	return list
}

// prompt returns tokens with a prefix that no earlier prompt had.
func (b *engineBench) prompt(n int) []int32 {
	b.counter++
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = (b.counter*7919 + int32(i)*31) % int32(b.Model.Vocab)
	}
	return ids
}

// generate runs a request and calls f for each token.
func (b *engineBench) generate(r engine.Request, f func()) error {
	for _, err := range b.e.Generate(context.Background(), r) {
		if err != nil {
			return err
		}
		if f != nil {
			f()
		}
	}
	return nil
}

// prefixes times a long prompt twice, three times over; the least counts.
func (b *engineBench) prefixes(out *EngineResult) error {
	for i := range 3 {
		ids := b.prompt(b.Long)
		for _, to := range [][2]*float64{{&out.First, &out.FirstCPU}, {&out.Again, &out.AgainCPU}} {
			began, cpu := time.Now(), CPUSeconds()
			if err := b.generate(engine.Request{Prompt: ids, Tokens: 1}, nil); err != nil {
				return err
			}
			took, work := milliseconds(time.Since(began)), (CPUSeconds()-cpu)*1e3
			if i == 0 || took < *to[0] {
				*to[0] = took
			}
			if i == 0 || work < *to[1] {
				*to[1] = work
			}
		}
	}
	return nil
}

// gaps decodes sequences, alone and during the prefill of a long prompt.
func (b *engineBench) gaps(out *EngineResult) error {
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	begun := make(chan struct{}, b.Sequences)
	for range b.Sequences {
		r := engine.Request{Prompt: b.prompt(b.Prompt), Tokens: b.e.Limit() - b.Prompt}
		wg.Go(func() {
			n := 0
			for _, err := range b.e.Generate(ctx, r) {
				if n++; err != nil || n == 2 {
					begun <- struct{}{}
				}
				if err != nil {
					return
				}
			}
		})
	}
	for range b.Sequences {
		<-begun
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wg.Wait()
	}()
	alone := b.some(ended)
	err := b.generate(engine.Request{Prompt: b.prompt(b.Long), Tokens: 1}, nil)
	during := b.taken()
	alone = append(alone, b.some(ended)...)
	stop()
	<-ended
	if err != nil {
		return err
	}
	if len(alone) == 0 {
		return errors.New("the sequences ended before a step was measured: want more runs")
	}
	out.Alone, out.During = gapsOf(alone), gapsOf(during)
	return nil
}

// some waits for some steps and returns them; fewer if the sequences end before.
func (b *engineBench) some(ended <-chan struct{}) (list []engineStep) {
	b.taken()
	for len(list) < b.Runs {
		select {
		case <-ended:
			return append(list, b.taken()...)
		case <-time.After(time.Millisecond):
			list = append(list, b.taken()...)
		}
	}
	return list
}

func quantile(list []engineStep, q float64, of func(engineStep) float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.SortFunc(list, func(a, b engineStep) int { return cmp.Compare(of(a), of(b)) })
	return of(list[min(len(list)-1, int(q*float64(len(list))))])
}

// numbers is a tokenizer that shows every token as a letter.
type numbers struct{}

func (numbers) Encode(text string) []int32 { return make([]int32, len(text)) }
func (numbers) Decode(ids []int32) string  { return strings.Repeat("x", len(ids)) }
