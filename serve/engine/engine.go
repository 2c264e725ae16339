package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// Config configures an engine. The zero value of a field means the default that its comment gives.
type Config struct {
	// Weights is f32, bf16, int8 or int4; empty keeps the model's format. Embeddings, heads and routers are not
	// quantized.
	Weights string
	// Read returns a parameter's values, one parameter at a time; nil uses the model's own.
	Read func(p *nn.Param) (array.Array, error)
	// Grouped returns a matrix that is stored as integers, ok false for others; nil is for models without
	// any.
	Grouped func(p *nn.Param) (m quant.Matrix, ok bool, err error)
	// Threads is the number of threads; 0 is all cores.
	Threads int
	// KV is the dtype of the KV cache: f32, bf16 or int8; empty means f32.
	KV string
	// TP is the number of devices of this process that split heads, pages and matrices; 0 means 1. They share
	// the threads. Answers do not depend on it.
	TP int
	// Backend computes in place of the host's CPU; nil is the CPU. The caller closes it, after the
	// engine.
	Backend backend.Backend
	// Decode converts tokens to text; nil returns tokens without text.
	Decode func(ids []int32) string
	// Context is the longest sequence, with the prompt; 0 is what the model and the pages allow.
	Context int
	// Longest is like Context, but may exceed what the pages hold; 0 is no limit.
	Longest int
	// Pages is the number of pages of 16 tokens; 0 is as many as fit into Memory.
	Pages int
	// Memory is the bytes of all pages; 0 means 1 GiB, or less if Running sequences of Context need less.
	Memory int64
	// Running is the largest number of sequences computed at once; 0 means 64.
	Running int
	// Waiting is the largest number of sequences that may wait besides; 0 is no limit.
	Waiting int
	// Budget is the maximum number of tokens per step; 0 means 256.
	Budget int
	// Speculate is the largest number of draft tokens computed with the next one; 0 is none. They come from the
	// sequence itself, so repetitive texts gain, and answers do not change.
	Speculate int
	// Draft is a draft model that replaces drafts from the sequence itself; nil is none. Speculate 0 then means
	// 4. Drafting pauses if it costs more time than it saves.
	Draft *Draft
	// Observe, if not nil, is called after every step. It must return at once.
	Observe func(StepStats)
}

// Engine runs requests. Its methods may be called concurrently.
type Engine struct {
	config Config
	shape  models.Model
	model  computed
	host   *host    // nil on a backend
	device *device  // nil on the host
	draft  *drafter // nil if drafts come from sequences
	pace   pace

	mu       sync.Mutex
	wake     sync.Cond
	pages    *pages
	queue    *queue
	running  []*sequence
	arrivals uint64
	adapters map[string]*adapter
	loaded   uint64 // the number of adapters loaded so far
	closed   bool
	draining bool
	failed   error // of a backend: no more steps are possible
	stats    Stats
	done     chan struct{}

	batch []item
	seqs  []paged.Sequence
}

// New packs a model's weights and starts the engine's loop. Close ends it.
func New(m models.Model, c Config) (*Engine, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	e := &Engine{shape: m, queue: newQueue(), adapters: map[string]*adapter{}, done: make(chan struct{})}
	if err := e.pack(m, c); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	draft, err := newDrafter(&c, e.model.Config().Vocab)
	if err != nil {
		e.model.Close()
		return nil, err
	}
	e.draft = draft
	if c.Pages == 0 {
		c.Pages = c.pagesFor(e.model, draft.pageBytes())
	}
	if need := (c.Context + pageTokens - 1) / pageTokens; need > c.Pages {
		e.model.Close()
		draft.close()
		return nil, fmt.Errorf("engine: a context of %d tokens takes %d pages of %d bytes: %d fit: "+
			"want a context of at most %d, or more memory for pages", c.Context, need, e.model.PageBytes(), c.Pages,
			c.Pages*pageTokens)
	}
	e.config, e.pages = c, newPages(c.Pages)
	e.wake.L = &e.mu
	if err := e.begin(); err != nil {
		e.model.Close()
		draft.close()
		return nil, fmt.Errorf("engine: %w", err)
	}
	draft.begin(c.Pages, max(c.Budget, 2*c.Running))
	e.stats.Pages = c.Pages
	go e.loop()
	return e, nil
}

func (c *Config) fill() error {
	if min(c.Context, c.Longest, c.Pages, int(c.Memory), c.Running, c.Waiting, c.Budget, c.Threads, c.Speculate,
		c.TP) < 0 {
		return fmt.Errorf(
			"engine: context %d, pages %d, memory %d, running %d, waiting %d, budget %d, threads %d, "+
				"speculate %d, tp %d: want 0 or more",
			c.Context,
			c.Pages,
			c.Memory,
			c.Running,
			c.Waiting,
			c.Budget,
			c.Threads,
			c.Speculate,
			c.TP,
		)
	}
	if c.Draft != nil && c.Speculate == 0 {
		c.Speculate = 4
	}
	if c.Running == 0 {
		c.Running = 64
	}
	if c.Budget == 0 {
		c.Budget = 256
	}
	return nil
}

// pagesFor returns the number of pages that fit into the memory, at most as many as can be used.
func (c *Config) pagesFor(m computed, draft int) int {
	memory := c.Memory
	if memory == 0 {
		memory = 1 << 30
	}
	n := int(memory / int64(m.PageBytes()+draft))
	if limit := lesser(lesser(c.Context, c.Longest), m.Limit()); limit > 0 {
		n = min(n, (c.Running*((limit+pageTokens-1)/pageTokens)+c.Running)*2)
	}
	return n
}

// lesser returns the smaller of two limits; 0 means no limit.
func lesser(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Model returns the model's configuration.
func (e *Engine) Model() models.Config { return e.model.Config() }

// Limit returns the longest sequence, with the prompt.
func (e *Engine) Limit() int {
	limit := lesser(lesser(e.config.Context, e.config.Longest), e.model.Limit())
	return lesser(limit, e.config.Pages*pageTokens)
}

// Bytes returns the memory of the packed weights, and of the pages.
func (e *Engine) Bytes() (weights, pages int) {
	return e.model.Bytes(), e.config.Pages * e.model.PageBytes()
}

// Close ends the engine; unfinished requests end with ErrClosed.
func (e *Engine) Close() {
	e.mu.Lock()
	already := e.closed
	e.closed = true
	e.wake.Broadcast()
	e.mu.Unlock()
	<-e.done
	if !already {
		e.device.close()
		e.model.Close()
		e.draft.close()
	}
}

// Drain rejects new requests and waits until the accepted ones have ended, or ctx is done.
func (e *Engine) Drain(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		e.wake.Broadcast()
		e.mu.Unlock()
	})
	defer stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
	for len(e.running)+len(e.queue.list) > 0 && !e.closed && ctx.Err() == nil {
		e.wake.Wait()
	}
	return ctx.Err()
}
